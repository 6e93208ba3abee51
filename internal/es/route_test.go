package es

import (
	"encoding/binary"
	"math/bits"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// The vectors that the engines themselves are tested with.
func TestHashRouting(t *testing.T) {
	for text, want := range map[string]uint32{
		"hell":      0x5a0cb7c3,
		"hello":     0xd7c31989,
		"hello w":   0x22ab2984,
		"hello wo":  0xdf0ca123,
		"hello wor": 0xe7744d61,
		"The quick brown fox jumps over the lazy dog": 0xe07db09c,
		"The quick brown fox jumps over the lazy cog": 0x4e63d2ad,
	} {
		require.Equal(t, want, uint32(hashRouting(text)), text)
	}
}

func TestShard(t *testing.T) {
	plain := Routing{Shards: 5, RoutingShards: 640, PartitionSize: 1}
	require.Equal(t, plain.Shard("x", "user-1"), plain.Shard("y", "user-1"), "the routing decides")
	require.Equal(t, plain.Shard("user-1", ""), plain.Shard("y", "user-1"), "the id stands in for it")
	require.Zero(t, Routing{Shards: 1, RoutingShards: 1024, PartitionSize: 1}.Shard("x", ""))

	spread := Routing{Shards: 8, RoutingShards: 8, PartitionSize: 3}
	seen := map[int]bool{}
	for i := range 100 {
		seen[spread.Shard(string(rune('a'+i)), "user-1")] = true
	}
	require.Len(t, seen, 3, "one routing value means as many shards as the partition size says")
}

func TestRoutingValid(t *testing.T) {
	require.True(t, Routing{Shards: 3, RoutingShards: 768, PartitionSize: 1}.Valid())
	for _, r := range []Routing{
		{}, {Shards: 3, RoutingShards: 0, PartitionSize: 1}, {Shards: 3, RoutingShards: 4, PartitionSize: 1},
		{Shards: 4, RoutingShards: 2, PartitionSize: 1}, {Shards: 1, RoutingShards: 1}, {Shards: -1, RoutingShards: -1, PartitionSize: 1},
	} {
		require.False(t, r.Valid(), r)
	}
}

// referenceHash is MurmurHash3_x86_32 as published, over the code units that Java
// would hold.
func referenceHash(s string) int32 {
	var b []byte
	for _, unit := range utf16.Encode([]rune(s)) {
		b = binary.LittleEndian.AppendUint16(b, unit)
	}
	const c1, c2 = 0xcc9e2d51, 0x1b873593
	var h uint32
	length := uint32(len(b))
	for ; len(b) >= 4; b = b[4:] {
		h ^= bits.RotateLeft32(binary.LittleEndian.Uint32(b)*c1, 15) * c2
		h = bits.RotateLeft32(h, 13)*5 + 0xe6546b64
	}
	if len(b) == 2 { // code units have two bytes
		h ^= bits.RotateLeft32(uint32(binary.LittleEndian.Uint16(b))*c1, 15) * c2
	}
	h ^= length
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ h>>13) * 0xc2b2ae35
	return int32(h ^ h>>16)
}

func FuzzShard(f *testing.F) {
	f.Add("1", "", uint8(3), uint8(8), uint8(1))
	f.Add("id", "user-1", uint8(4), uint8(2), uint8(3))
	f.Add("Ünïcødé", "日本語", uint8(1), uint8(1), uint8(1))
	f.Add("😀 beyond the first plane", "𝄞", uint8(7), uint8(5), uint8(20))
	f.Fuzz(func(t *testing.T, id, routing string, shards, factor, partition uint8) {
		if !utf8.ValidString(id) || !utf8.ValidString(routing) {
			return
		}
		r := Routing{Shards: int(shards), RoutingShards: int(shards) * int(factor), PartitionSize: int(partition)}
		if !r.Valid() {
			return
		}
		require.Equal(t, referenceHash(id), hashRouting(id))
		effective := routing
		if effective == "" {
			effective = id
		}
		hash := referenceHash(effective)
		if partition > 1 {
			hash += ((referenceHash(id) % int32(partition)) + int32(partition)) % int32(partition)
		}
		parts := int32(r.RoutingShards)
		want := (hash%parts + parts) % parts / int32(factor)
		require.Equal(t, int(want), r.Shard(id, routing))
		require.Less(t, r.Shard(id, routing), r.Shards)
	})
}

func BenchmarkShard(b *testing.B) {
	b.ReportAllocs()
	r := Routing{Shards: 5, RoutingShards: 640, PartitionSize: 1}
	for b.Loop() {
		r.Shard("dRj9NpMBkVyiCtFz4u7-", "")
	}
}
