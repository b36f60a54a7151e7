package certs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// externalScene is a scene in which somebody else issues: the Secrets hold a pair by the authority, and the bundle.
func externalScene(t *testing.T) (*scene, *Pair) {
	s := newScene(t)
	s.servers = nil
	r := s.rotators[0]
	s.boot(r)
	r.options.Mode, r.options.CAKey = ModePublishOnly, "bundle.pem"
	a := s.foreignAuthority()
	for _, name := range []string{simCA, simTLS} {
		s.secrets[name] = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: simNamespace, Name: name}}
	}
	s.theyIssue(a)
	s.theyPublish(a.PEM())
	s.run(time.Minute)
	return s, a
}

func (s *scene) theyIssue(a *Pair) {
	pair, err := Issue(s.bytes, a, []string{"flotilla-webhook.flotilla-system.svc"}, s.now, s.now.Add(90*day))
	require.NoError(s, err)
	s.put(simTLS, func(c *corev1.Secret) { c.Data[KeyServingCert] = pair.PEM() })
}

func (s *scene) theyPublish(bundle []byte) {
	s.put(simCA, func(c *corev1.Secret) { c.Data["bundle.pem"] = bundle })
}

func TestScenario069_WhatOthersMaintainIsPublished(t *testing.T) {
	s, old := externalScene(t)
	holdsOnly := func(list ...Certificate) {
		t.Helper()
		for _, target := range s.targets {
			require.True(t, SameBundle(list, s.bundle(target)), target.name)
		}
	}
	holdsOnly(old.Certificate)
	fresh := s.foreignAuthority()
	s.theyPublish(fresh.PEM())
	s.run(time.Hour)
	holdsOnly(fresh.Certificate, old.Certificate)
	require.Len(t, s.events[EventExternalOverlap], 1)
	s.theyIssue(fresh)
	s.run(time.Minute)
	holdsOnly(fresh.Certificate)

	expired, err := NewAuthority(s.bytes, s.now.Add(-2*day), s.now.Add(-day))
	require.NoError(t, err)
	for name, value := range map[string][]byte{"no bundle": []byte("garbage"), "no authority": s.secrets[simTLS].Data[KeyServingCert], "expired": expired.PEM()} {
		s.theyPublish(value)
		s.run(time.Hour)
		holdsOnly(fresh.Certificate)
		require.NotEmpty(t, s.events[EventSecretInvalid], name)
		s.events[EventSecretInvalid] = nil
	}
	require.Zero(t, s.writes["write "+simCA]+s.writes["write "+simTLS], "nothing is generated")
}

func TestScenario069_AnOverlapEndsAfterADay(t *testing.T) {
	s, _ := externalScene(t)
	fresh := s.foreignAuthority()
	s.theyPublish(fresh.PEM())
	s.run(23 * time.Hour)
	require.Len(t, s.bundle(s.crd), 2)
	s.run(2 * time.Hour)
	require.Len(t, s.bundle(s.crd), 1)
}

func TestModesAreChecked(t *testing.T) {
	o := DefaultOptions()
	o.Mode = "both"
	require.ErrorContains(t, o.Check(), "--mode")
	o = DefaultOptions()
	o.CAKey = "x"
	require.ErrorContains(t, o.Check(), "--ca-key")
	o.Mode, o.CASecret = ModePublishOnly, o.TLSSecret
	require.NoError(t, o.Check())
}

func TestEveryOverlapOfTheSameCertificateLasts(t *testing.T) {
	s, old := externalScene(t)
	fresh := s.foreignAuthority()
	for range 2 {
		s.theyPublish(fresh.PEM())
		s.run(time.Hour)
		require.True(t, SameBundle([]Certificate{fresh.Certificate, old.Certificate}, s.bundle(s.crd)))
		s.theyPublish(old.PEM())
		s.run(time.Hour)
		require.True(t, SameBundle([]Certificate{old.Certificate}, s.bundle(s.crd)))
		s.run(48 * time.Hour)
	}
}

func TestWhatExpiresLeavesTheBundleOfOthers(t *testing.T) {
	s, old := externalScene(t)
	short, err := NewAuthority(s.bytes, s.now, s.now.Add(3*time.Hour))
	require.NoError(t, err)
	s.theyPublish(append(old.PEM(), short.PEM()...))
	s.run(time.Hour)
	require.Len(t, s.bundle(s.crd), 2)
	s.run(4 * time.Hour)
	require.Empty(t, s.events[EventSecretInvalid], "nobody looks without need")
	for range 2 {
		s.wipe(s.crd, "")
		s.run(5 * time.Minute)
		require.True(t, SameBundle([]Certificate{old.Certificate}, s.bundle(s.crd)))
		require.NotEmpty(t, s.events[EventSecretInvalid])
		// The same for one that begins then.
		s.boot(s.rotators[0])
		s.rotators[0].options.Mode, s.rotators[0].options.CAKey = ModePublishOnly, "bundle.pem"
	}
}
