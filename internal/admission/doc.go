// Package admission decides how much is sent to each node at a time, and what waits or is
// refused meanwhile: by Little's law, L = λ·W, as in Elasticsearch's automatic queue
// resizing, but before the cluster, where all nodes and clients are seen. It is pure: no
// I/O, no clock, no goroutine. Time is an argument.
//
// The unit is the shard query: a search of five shards counts five. A [Control] is not
// safe for concurrent use; its caller guards it.
package admission
