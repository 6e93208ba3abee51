package tracing

import (
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// The attributes of spans. What has a name in OpenTelemetry's semantic conventions
// has that.
const (
	keyMethod          = semconv.HTTPRequestMethodKey
	keyStatus          = semconv.HTTPResponseStatusCodeKey
	keyResend          = semconv.HTTPRequestResendCountKey
	keyScheme          = semconv.URLSchemeKey
	keyPath            = semconv.URLPathKey
	keyURL             = semconv.URLFullKey
	keyProtocolVersion = semconv.NetworkProtocolVersionKey
	keyClientAddress   = semconv.ClientAddressKey
	keyServerAddress   = semconv.ServerAddressKey
	keyServerPort      = semconv.ServerPortKey
	keyErrorType       = semconv.ErrorTypeKey
	keySystem          = semconv.DBSystemNameKey
	keyOperationName   = semconv.DBOperationNameKey
	keyCollection      = semconv.DBCollectionNameKey
	keyResponseCode    = semconv.DBResponseStatusCodeKey

	keyOperation   attribute.Key = "sidestep.operation"
	keyMode        attribute.Key = "sidestep.mode"
	keyReason      attribute.Key = "sidestep.reason"
	keyOutcome     attribute.Key = "sidestep.outcome"
	keyAttempts    attribute.Key = "sidestep.attempts"
	keyClass       attribute.Key = "sidestep.admission.class"
	keyWaited      attribute.Key = "sidestep.admission.waited"
	keyRole        attribute.Key = "sidestep.role"
	keyCause       attribute.Key = "sidestep.cause"
	keyPreference  attribute.Key = "sidestep.preference"
	keyNodes       attribute.Key = "sidestep.nodes"
	keyCoordinator attribute.Key = "sidestep.coordinator"
)

// Attribute describes an attribute of a span.
type Attribute struct {
	Key string
	// Request and Attempt say on which spans it may stand.
	Request, Attempt bool
	Meaning          string
}

// Attributes describes all attributes, in the order of docs/tracing.md.
func Attributes() []Attribute {
	const both, request, attempt = 3, 1, 2
	var all []Attribute
	add := func(key attribute.Key, on int, meaning string) {
		all = append(all, Attribute{string(key), on&request != 0, on&attempt != 0, meaning})
	}
	add(keyMethod, both, "as sent, `_OTHER` if it is none of the known ones")
	add(keyStatus, both, "of the answer; absent if there was none")
	add(keyErrorType, both, "why it failed: the status (from 500 on a request, from 400 on an attempt), `canceled`, `timeout`, `connect` (nothing was sent), `transport`; on a request without an answer its outcome")
	add(keyServerAddress, both, "where the client's connection arrived, or the node's address")
	add(keyServerPort, both, "its port")
	add(keyScheme, request, "`http` or `https`")
	add(keyPath, request, "as on the request line, ids replaced, 256 bytes at most; the query string is left out, as it may hold a query")
	add(keyProtocolVersion, request, "`1.1` or `2`")
	add(keyClientAddress, request, "who sent it, without port")
	add(keyURL, attempt, "the node's address with the path as above")
	add(keyResend, attempt, "how many attempts were sent before; absent on the first")
	add(keySystem, attempt, "`elasticsearch` or `opensearch`; absent until the cluster is known")
	add(keyOperationName, attempt, "the name of the API in the engines' specification: `search`, `open_point_in_time`; absent for what sidestep does not tell apart")
	add(keyCollection, attempt, "the index, alias or data stream that is read; absent if the cluster does not know it, or it is several")
	add(keyResponseCode, attempt, "the status of the answer once more")
	add(keyOperation, request, "what sidestep takes the request for ([requests.md](requests.md))")
	add(keyMode, request, "`route`, `observe` or `off`")
	add(keyReason, both, "of the decision, or why there was none; the same as in `sidestep_requests_total`")
	add(keyOutcome, request, "for the client; the same as in `sidestep_requests_total`")
	add(keyAttempts, request, "how many attempts were sent")
	add(keyClass, request, "the class of admission; absent while that is off")
	add(keyWaited, request, "for how long admission made the request wait, in seconds; absent if it did not")
	add(keyRole, attempt, "`first`, `failover` (the next best copies after a failure), `hedge` (a second attempt for an overdue search), `as_written` (the client's own request after steered attempts), `pass` (a request that is not steered), `probe` (a search of sidestep's own)")
	add(keyCause, attempt, "why its answer was not the last word: a cause of `sidestep_failovers_total`, or `abandoned` if another attempt was sooner or told that it would be refused")
	add(keyPreference, attempt, "`only_nodes` or `prefer_nodes`, if the request was rewritten")
	add(keyNodes, both, "names of the nodes listed, 32 at most")
	add(keyCoordinator, both, "name of the node that the request was sent to; on a request, of the one that the answer came through")
	return all
}
