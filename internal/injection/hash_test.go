package injection

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
)

const agent = `{"name":"agent","image":"agent:1.0"}`

func setOf(t *testing.T, spec string) *v1beta1.SidecarSet {
	t.Helper()
	set := &v1beta1.SidecarSet{}
	require.NoError(t, json.Unmarshal([]byte(spec), &set.Spec))
	v1beta1.SetDefaults_SidecarSet(set)
	return set
}

func TestHashesAreThoseOfEveryImplementation(t *testing.T) {
	first := Hashes{"fb2wv2dwvd2b2z8zw78w74bbbd7487f77749969w495928zwvvbf4ffw28925z64", "62258bb8d4vv7w584244bd5df277d4vw9fbf49c99967447fxw5z4f4956b97fz4"}
	const natives = `{"name":"setup","image":"setup:1"},{"name":"native","image":"native:1","restartPolicy":"Always"}`
	for name, c := range map[string]struct {
		spec string
		want Hashes
	}{
		"one container":              {`{"containers":[` + agent + `]}`, first},
		"and a plain init container": {`{"containers":[` + agent + `],"initContainers":[{"name":"setup","image":"setup:1"}]}`, first},
		"and a native sidecar": {`{"containers":[` + agent + `],"initContainers":[` + natives + `]}`,
			Hashes{"ddw96v466f4fz42fb8f96f7644bdb47x9625df495dwvz474zd5484428x2fcw9b", "v84vd667bcwwb6688544z452fwf6cd7cw957zvx5c57c64c4c485d9z449fcz5fz"}},
		"native sidecars alone": {`{"initContainers":[` + natives + `]}`,
			Hashes{"5dd5c6bxwx5c4229f7wfbf696429x4vxffwb8422fvf44bw98z24x4d26zc4c69w", "dx6w99w474dxdzb5wz62dzx6z6vz8dz66bxz6d44228c66wfzxbb9544wz4xb85b"}},
		"text that JSON escapes": {`{"containers":[{"name":"amp","image":"img:1","command":["sh","-c","a && b > c"]}]}`,
			Hashes{"42wv662fc5cc47f46f8b5wdfxv69xw4w4w724fzdvb4wf5zz7b5fx9bzw445z8zd", "w449v44276wd9c4w44x2zd27w9594bv9z6f499z9f75wb644wxzz8xbxd254ww4d"}},
	} {
		t.Run(name, func(t *testing.T) {
			set := setOf(t, c.spec)
			before := set.DeepCopy()
			got, err := HashesOf(&set.Spec)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
			require.Equal(t, before, set, "nothing is changed by looking")
		})
	}
}
