// Package draw makes numbers in [0, 1) that look random and are the same in every process
// and every run. It is pure.
package draw

// Number returns draw i of turn of a generator with this seed.
func Number(seed, turn, i uint64) float64 {
	return unit(seed + turn*0x9e3779b97f4a7c15 + i*0xd1342543de82ef95)
}

// Score returns the score of a name for a key, as rendezvous hashing needs it: FNV-1a of the
// name, mixed with the key by the finalizer of SplitMix64. The name with the highest score
// has the key; while it is absent, the next one has.
func Score(key uint64, name string) float64 {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return unit(h ^ mix(key))
}

// unit maps z to [0, 1) so that close numbers end up far apart.
func unit(z uint64) float64 { return float64(mix(z)>>11) / (1 << 53) }

// mix is the finalizer of SplitMix64.
func mix(z uint64) uint64 {
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ z>>31
}
