package history

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-k8s/flotilla/internal/revision"
)

// Memory keeps how the templates of owners are encoded, because most syncs find the template that the one before found.
// The zero value is ready for use, and nil remembers nothing.
type Memory struct {
	mu sync.Mutex
	of map[types.UID]encoded
}

// encoded is the template of a generation: the API server counts one up with every change of a spec.
type encoded struct {
	generation int64
	data       []byte
}

// encode returns data that must not be changed.
func (m *Memory) encode(o *Owner) ([]byte, error) {
	if m == nil || o.Generation == 0 {
		return revision.Encode(o.Template)
	}
	m.mu.Lock()
	known, ok := m.of[o.UID]
	m.mu.Unlock()
	if ok && known.generation == o.Generation {
		return known.data, nil
	}
	data, err := revision.Encode(o.Template)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = map[types.UID]encoded{}
	}
	m.of[o.UID] = encoded{o.Generation, data}
	return data, nil
}

// Forget drops what is known of an owner that is gone.
func (m *Memory) Forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, uid)
}
