package proxy

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
)

func TestOwnZoneWithoutNodesIsToldOnce(t *testing.T) {
	var log bytes.Buffer
	h := start(t, 1, func(o *Options) {
		o.Zone = Zone{Attribute: "zone", Local: "east"}
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	in := func(zones ...string) *cluster.Snapshot {
		c := cluster.Contents{}
		for i, zone := range zones {
			c.Nodes = append(c.Nodes, &cluster.Node{ID: id(i), Name: id(i), Attributes: map[string]string{"zone": zone}})
		}
		return cluster.NewSnapshot(c)
	}
	told := func() int { return strings.Count(log.String(), "no node is in sidestep's own zone") }
	require.Equal(t, 1, told(), "of nodes without attributes")

	h.proxy.UseSnapshot(in("west", "north", "west"))
	require.Equal(t, 1, told())
	h.proxy.UseSnapshot(in())
	h.proxy.UseSnapshot(in("west", "east"))
	require.Equal(t, 1, told())
	require.Equal(t, "east", h.proxy.Nodes()[1].Zone)
	h.proxy.UseSnapshot(in("west", "north", "west"))
	require.Equal(t, 2, told(), "the zone was lost")
	require.Contains(t, log.String(), `zone=east attribute=zone zones="[north west]"`)
}
