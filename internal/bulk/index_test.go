package bulk

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// metadata is an answer about one index, "logs".
func metadata(settings, mappings string) string {
	return fmt.Sprintf(`{"metadata":{"indices":{"logs":{"state":"open","settings":{"index":{"number_of_shards":"6"%s}},"mappings":{"_doc":{%s}},"aliases":[],"routing_num_shards":768}}}}`, settings, mappings)
}

func parse(t *testing.T, body string) map[string]Index {
	t.Helper()
	indices, err := ParseIndices([]byte(body))
	require.NoError(t, err)
	return indices
}

func TestParseIndices(t *testing.T) {
	plain := Index{WriteIndex: "logs", Shards: 6, RoutingShards: 768, Values: Values(6, 768)}
	for _, settings := range []string{
		``, `,"routing_partition_size":"1"`, `,"default_pipeline":"_none","final_pipeline":"_none"`, `,"mode":"standard"`, `,"mode":"logsdb"`,
		`,"routing_path":[]`, `,"logsdb":{"route_on_sort_fields":"false"}`, `,"number_of_virtual_shards":"-1"`, `,"append_only":{"enabled":"false"}`, `,"analysis":{"x":[1]}`, `,"mode":null`,
	} {
		require.Equal(t, map[string]Index{"logs": plain}, parse(t, metadata(settings, ``)), settings)
	}
	for _, mappings := range []string{
		`"_routing":{"required":false}`, `"properties":{"type":{"type":"keyword"},"join":{"type":"text","fields":{"raw":{"type":"keyword"}}}}`,
		`"dynamic":"strict","properties":{"a":{"properties":{"b":{"type":"nested","properties":{"properties":{"type":"long"}}}}}}`,
	} {
		require.Equal(t, map[string]Index{"logs": plain}, parse(t, metadata(``, mappings)), mappings)
	}
	plain.UUID = "u"
	require.Equal(t, map[string]Index{"logs": plain}, parse(t, metadata(`,"uuid":"u"`, ``)))
	require.Empty(t, parse(t, `{}`))
	require.Empty(t, parse(t, `{"metadata":{"indices":{}}}`))
}

func TestAppendOnlyIndices(t *testing.T) {
	for _, enabled := range []string{`"true"`, `true`} {
		index := parse(t, metadata(`,"append_only":{"enabled":`+enabled+`}`, ``))["logs"]
		require.True(t, index.AppendOnly)
		require.Empty(t, index.Refused)
	}
}

func TestParseIndicesRefuses(t *testing.T) {
	for _, tc := range []struct {
		body string
		why  Reason
	}{
		{metadata(`,"routing_partition_size":"2"`, ``), ReasonPartitioned},
		{metadata(`,"routing_partition_size":3`, ``), ReasonPartitioned},
		{metadata(`,"number_of_virtual_shards":"12"`, ``), ReasonUnreadable},
		{metadata(`,"number_of_virtual_shards":12`, ``), ReasonUnreadable},
		{metadata(`,"mode":"time_series"`, ``), ReasonRoutedByFields},
		{metadata(`,"mode":"TIME_SERIES","routing_path":["host"]`, ``), ReasonRoutedByFields},
		{metadata(`,"mode":"logsdb","routing_path":["host"]`, ``), ReasonRoutedByFields},
		{metadata(`,"routing_path":"host"`, ``), ReasonRoutedByFields},
		{metadata(`,"mode":"logsdb","logsdb":{"route_on_sort_fields":"true"}`, ``), ReasonRoutedByFields},
		{metadata(`,"default_pipeline":"p"`, ``), ReasonPipeline},
		{metadata(`,"final_pipeline":"p"`, ``), ReasonPipeline},
		{metadata(``, `"_routing":{"required":true}`), ReasonRoutingRequired},
		{metadata(``, `"_routing":{"required":"true"}`), ReasonRoutingRequired},
		{metadata(``, `"properties":{"r":{"type":"join","relations":{"q":"a"}}}`), ReasonJoinField},
		{metadata(``, `"properties":{"a":{"properties":{"b":{"properties":{"r":{"type":"join"}}}}}}`), ReasonJoinField},
		{strings.Replace(metadata(``, ``), `"6"`, `"1"`, 1), ReasonOneShard},
		{strings.Replace(metadata(``, ``), `"6"`, `"x"`, 1), ReasonUnreadable},
		{strings.Replace(metadata(``, ``), `"6"`, `"5"`, 1), ReasonUnreadable},
		{strings.Replace(metadata(``, ``), `number_of_shards`, `other`, 1), ReasonUnreadable},
		{strings.Replace(metadata(``, ``), `routing_num_shards`, `other`, 1), ReasonUnreadable},
		{strings.Replace(metadata(``, ``), `"open"`, `"close"`, 1), ReasonClosed},
	} {
		index := parse(t, tc.body)["logs"]
		require.Equal(t, tc.why, index.Refused, tc.body)
		switch tc.why {
		case ReasonPartitioned, ReasonRoutedByFields, ReasonUnreadable:
			require.Nil(t, index.Values)
		}
		if tc.why == ReasonRoutingRequired {
			require.Empty(t, index.RefusedRouted)
		} else {
			require.Equal(t, tc.why, index.RefusedRouted)
		}
		require.Contains(t, Reasons(), tc.why)
	}
}

func TestParseIndicesRefusesAliases(t *testing.T) {
	found := parse(t, strings.Replace(metadata(``, ``), `"aliases":[]`, `"aliases":["write","read"]`, 1))
	require.Len(t, found, 3)
	require.Equal(t, Index{Refused: ReasonAlias, RefusedRouted: ReasonAlias}, found["write"])
	require.Empty(t, found["logs"].Refused)
	require.Len(t, parse(t, strings.Replace(metadata(``, ``), `"aliases":[]`, `"aliases":{"a":{}}`, 1)), 1)
}

func TestRoutedAliases(t *testing.T) {
	for body, want := range map[string]bool{
		`{"logs":{"aliases":{"a":{}}}}`: false, `{"logs":{"aliases":{}}}`: false, `{"other":{"aliases":{"a":{"index_routing":"1"}}}}`: false,
		`{"logs":{"aliases":{"a":{},"b":{"index_routing":"1"}}}}`: true, `{"logs":{"aliases":{"a":{"search_routing":"1,2"}}}}`: true, `[]`: true,
	} {
		require.Equal(t, want, HasRoutedAlias("logs", []byte(body)), body)
	}
	resized := parse(t, metadata(`,"resize":{"source":{"name":"old","uuid":"u"}}`, ``))["logs"]
	require.Empty(t, resized.Refused)
	require.Equal(t, ReasonResized, resized.RefusedRouted)
	require.True(t, resized.Resized)
}

func TestParseIndicesErrors(t *testing.T) {
	for _, body := range []string{
		``, `[]`, `{"metadata":[]}`, `{"metadata":{"indices":{"a":7}}}`,
	} {
		_, err := ParseIndices([]byte(body))
		require.Error(t, err, body)
	}
}

func FuzzParseIndices(f *testing.F) {
	f.Add([]byte(metadata(`,"routing_path":["a"]`, `"properties":{"a":{"type":"join"}}`)))
	f.Add([]byte(`{"metadata":{"indices":{"a":{"settings":{"index":{"number_of_shards":"2"}},"aliases":["b"],"routing_num_shards":4}}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		indices, err := ParseIndices(body)
		if err != nil {
			require.Empty(t, indices)
			return
		}
		for name, index := range indices {
			require.True(t, index.Refused != "" || index.Values != nil)
			if index.Refused == "" {
				require.Len(t, index.Values, index.Shards)
				require.True(t, name == "" || index.WriteIndex != "")
			}
		}
	})
}
