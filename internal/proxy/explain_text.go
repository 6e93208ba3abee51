package proxy

import (
	"fmt"

	"sidestep/internal/cluster"
	"sidestep/internal/es"
)

// passTexts say why a request passes, by its reason.
var passTexts = map[string]string{
	reasonOperationOff: "The operation is switched off (routing.operations).",
	reasonStale:        "The placement could not be confirmed for cluster.placement_max_age.",
	reasonFailing:      "Second attempts of searches fail as the first ones do: searches go out once until one succeeds.",
	reasonForbidden:    "The cluster forbids node preferences (strict weighted routing); a probe finds out when it allows them again.",

	string(es.PassClientPreference): "The client chose the copies itself: by a keyword, by any preference for an operation that keeps its copies, or by a string while routing.affinity.strings is false.",
	string(es.PassRemoteTarget):     "The target is in another cluster.",
	string(es.PassPIT):              "A point in time allows no preference.",
	string(es.PassUnreadableBody):   "The body does not tell what the request reads.",
	string(es.PassUnverifiable):     "The answer may not show that the cluster forbids preferences.",
	string(es.PassAmbiguousQuery):   "A relevant part of the request cannot be decoded, is empty or is given twice.",
	string(es.PassTypedPath):        "The path has a mapping type (7.x).",
	string(es.PassIndicesOptions):   "Wildcards match other indices than by default.",
	string(es.PassNotSteerable):     "The operation is not one that is steered.",
	string(es.PassUnreadableHeader): "The header of the item cannot be read.",

	string(cluster.MissUnknownTarget):      "The target has not been seen before, or its indices have changed: it is being looked up in the background. Ask again. If this stays, there is no index, alias or data stream of the name.",
	string(cluster.MissShardUnavailable):   "A shard of the target has no copy that can serve searches.",
	string(cluster.MissNoPlacement):        "The placement is not known yet.",
	string(cluster.MissUnsupported):        "The index is left alone: serverless, a remote snapshot, warm or the like.",
	string(cluster.MissClosed):             "An index of the target is closed: the engine refuses the search in its own words.",
	string(cluster.MissEmptyTarget):        "The target stands for no shard.",
	string(cluster.MissNotOneIndex):        "A document is read by id from a target that is not a single index.",
	string(cluster.MissRoutedByFields):     "In an index of time series or logsdb, or with virtual shards, neither id nor routing tells the shard.",
	string(cluster.MissSegmentReplication): "With segment replication the engine reads the primary unless a preference is given.",
}

// summarize says in words what would be done, and why.
func (p *Proxy) summarize(e Explanation) string {
	if e.Decision == nil || passTexts[e.Reason] != "" {
		text := passTexts[e.Reason]
		if text == "" {
			text = "The reason is " + e.Reason + "."
		}
		return "It passes as the client wrote it. " + text
	}
	text := e.Decision.Summary
	if e.Mode == ModeRoute {
		return text + e.text()
	}
	return fmt.Sprintf("%s The mode is %s, so it passes as the client wrote it all the same.", text, e.Mode)
}
