package simcluster

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBulksAreCountedByShard(t *testing.T) {
	c := quick(t, nil)
	n := c.Nodes()[0]
	o := ask(t, n, 200, "POST /products/_bulk", strings.Repeat("{\"index\":{\"routing\":\"x\"}}\n{}\n", 3)+
		"{\"index\":{\"_index\":\"missing\"}}\n{}\n{\"delete\":{\"_id\":\"1\"}}\n")
	items := o.at("items").([]any)
	require.Len(t, items, 5)
	require.Equal(t, true, o.at("errors"))
	for i, status := range []int{201, 201, 201, 404, 201} {
		for _, item := range items[i].(map[string]any) {
			require.Equal(t, status, object(item.(map[string]any)).number("status"))
		}
	}
	sum, largest := 0, 0
	for _, n := range c.Written("products") {
		sum, largest = sum+n, max(largest, n)
	}
	require.Equal(t, 4, sum)
	require.GreaterOrEqual(t, largest, 3, "one routing, one shard")
	ask(t, n, 400, "POST /products/_bulk", "{\"index\":{}}\n{}")
	ask(t, n, 400, "POST /products/_bulk", "[]\n")
}
