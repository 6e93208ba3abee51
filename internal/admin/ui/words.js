// The meaning of sidestep's closed sets of values, in words. A value that is not
// listed is shown unchanged.

// STATES of a node: kind is its mark, order the worst first.
export const STATES = {
  unreachable: { kind: "gone", order: 0, word: "unreachable", means: "refuses or resets connections; ejected while every shard has another copy" },
  failing: { kind: "bad", order: 1, word: "failing", means: "failed searches through its own fault; ejected while every shard has another copy" },
  slow: { kind: "bad", order: 2, word: "slow", means: "its probes took far longer than those of its peers; ejected while every shard has another copy" },
  unresponsive: { kind: "gone", order: 3, word: "unresponsive", means: "did not answer its last poll within the deadline; is probed, and coordinates no search" },
  busy: { kind: "back", order: 4, word: "busy", means: "searches wait in its queue, or it uses up its CPU quota, while its peers answer: avoided, not ejected, while every shard has another copy" },
  ramping: { kind: "back", order: 5, word: "ramping", means: "in slow start: its share of the searches grows" },
  unknown: { kind: "none", order: 6, word: "unknown", means: "not polled yet, or its last poll was answered with an error" },
  fine: { kind: "good", order: 7, word: "fine", means: "no evidence against it" },
  not_polled: { kind: "none", order: 8, word: "not polled", means: "neither holds shards nor is sent requests, as a dedicated manager" },
};

// NOT_POLLED is the state, on this page, of nodes whose state nobody asks for.
export const NOT_POLLED = "not_polled";

export const stateOf = (name) => STATES[name] || { kind: "none", order: 6, word: name, means: "" };

// LEAVING: how a node is said to be about to leave.
const LEAVING = {
  drained: "drained by an operator",
  drained_at_relay: "drained by an operator, at the relay",
  excluded: "the cluster excludes it from allocation",
  decommissioned: "the cluster decommissions its zone",
  shutdown: "the cluster is told of its shutdown",
};

// leaving says that a node is about to leave, empty if it is not.
export const leaving = (node) => (node.leaving ? `about to leave: ${LEAVING[node.leaving] || node.leaving}` : "");

// isEjected reports whether nodes in this state are ejected.
export const isEjected = (name) => stateOf(name).order < STATES.unresponsive.order;

// isLeftOut reports whether nodes in this state get no searches: they are ejected or busy.
export const isLeftOut = (name) => isEjected(name) || name === "busy";

export const MODES = {
  route: "Searches go to the best copies.",
  observe: "Decisions are made and counted, but every request passes as it came.",
  off: "Every request passes as it came; nothing is decided and no probes are sent.",
};

// Reasons of decisions in three groups: steered, left to the engine, passed.
const REASONS = {
  ranked: ["steered", "copies chosen by rank"],
  affinity: ["steered", "to the copies of the preference string or the target"],
  no_statistics: ["steered", "nothing measured yet: all copies are equal"],
  fail_open: ["steered", "all copies of some shard are on nodes that should be ejected: all of them listed"],
  one_shard: ["steered", "operations of a bulk are kept on one shard"],
  one_slot: ["steered", "operations of a bulk are kept in one slot"],
  no_outlier: ["engine", "no node stands out: the engine's own selection decides"],
  no_gain: ["engine", "a node should be kept out, but a list would have to use it, or others that are as slow, or full: the engine's own selection decides"],
  overloaded: ["passed", "all copies of some shard are on nodes that reject searches"],
  no_choice: ["passed", "every shard has one copy only"],
  observe: ["passed", "mode observe: decided and counted only"],
  mode_off: ["passed", "mode off"],
  operation_off: ["passed", "the operation is switched off (routing.operations)"],
  not_steerable: ["passed", "an operation that is never steered"],
  client_preference: ["passed", "the client chose the copies itself"],
  remote_target: ["passed", "cross-cluster target"],
  pit: ["passed", "a point in time takes no preference"],
  unreadable_body: ["passed", "the body cannot be read"],
  unreadable_header: ["passed", "a header line of a multi-search cannot be read"],
  unverifiable: ["passed", "the answer may not show whether preferences are forbidden"],
  ambiguous_query: ["passed", "a parameter does not decode or is given twice"],
  typed_path: ["passed", "a mapping type in the path"],
  indices_options: ["passed", "wildcards match other indices than by default"],
  unknown_target: ["passed", "the target is being learned: ask again in a moment"],
  shard_unavailable: ["passed", "a shard has no copy that can serve"],
  no_placement: ["passed", "the placement is not known yet"],
  stale_placement: ["passed", "the placement could not be confirmed for too long"],
  unsupported_index: ["passed", "serverless, remote snapshot, warm or the like"],
  closed_index: ["passed", "an index of the target is closed"],
  empty_target: ["passed", "the target stands for no shard"],
  not_one_index: ["passed", "documents read by id from a target that is not a single index"],
  routed_by_fields: ["passed", "neither id nor routing determines the shard (time series, logsdb)"],
  segment_replication: ["passed", "segment replication: the engine reads the primary"],
  request_line_too_long: ["passed", "the list of nodes would not fit"],
  body_too_large: ["passed", "the body is larger than limits.held_body"],
  held_bodies_full: ["passed", "limits.held_bodies are held already: it is streamed and tried once"],
  failing_everywhere: ["passed", "second attempts fail, too: searches go out once until one succeeds"],
  too_many_items: ["passed", "too many items in a multi-search or multi get"],
  preference_forbidden: ["passed", "the cluster forbids node preferences (strict weighted routing)"],
  client_gone: ["passed", "the client left before a decision"],
};

// reasonOf returns the group of a reason and what it means.
export function reasonOf(name) {
  const [group, means] = REASONS[name] || ["passed", ""];
  return { group, means };
}

export const GROUPS = { steered: "Steered", engine: "Left to the engine", passed: "Passed as it came" };

// CAUSES of spikes; act says where to look.
export const CAUSES = {
  gc_pause: { word: "garbage collection", act: "Look at heap use and the collections of this node: too much on the heap, or too small a heap." },
  merge_burst: { word: "merging of segments", act: "A merge runs on this node. Look at what is being indexed or force-merged, and at the disk." },
  refresh_burst: { word: "refreshes", act: "Refreshes take the node's time. Look at index.refresh_interval and at small, frequent bulks." },
  fetch_heavy: { word: "fetch phase", act: "Loading the hits takes the time. Look at size, at large sources, at fresh big segments not in the page cache." },
  queue_saturation: { word: "full search queue", act: "More searches arrive than this node can serve. Look at the clients that send them and at hot shards." },
  cpu_starvation: { word: "too little CPU", act: "The node gets less CPU than it needs. Look at its quota, its neighbours and at steal time." },
  pause: { word: "process stopped", act: "The whole process did not run: it was stopped, frozen or swapped out, or its machine was." },
  network_transport: { word: "network between nodes", act: "The node itself is fast, the network between it and the other nodes is not. Look at its transport connections." },
  network_http: { word: "network to its HTTP port", act: "Other nodes reach this node quickly, HTTP to it is slow. Look at its HTTP port and the network from here." },
  unresponsive: { word: "no answer", act: "The node does not answer at all, or has started again. Check that its process and machine are running, and why it ended." },
  unknown: { word: "unknown", act: "No cause stands out in what was captured. The time axis and the hot threads below may tell." },
};

export const causeOf = (name) => CAUSES[name] || { word: (name || "unknown").replaceAll("_", " "), act: "" };
