package harness

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPartial(t *testing.T) {
	const whole = `{"took":1,"timed_out":false,"_shards":{"total":5,"successful":5,"skipped":0,"failed":0},"hits":{}}`
	const without = `{"took":1,"timed_out":false,"_shards":{"total":5,"successful":4,"skipped":0,"failed":0},"hits":{}}`
	for body, partial := range map[string]bool{
		``:      false,
		whole:   false,
		without: true,
		`{"_shards" : { "total" : 5, "successful" : 4, "skipped" : 0, "failed" : 0 }}`: true,
		`{"_shards":{"failed":1}}`:                                                           true,
		`{"responses":[` + whole + `,` + whole + `]}`:                                        false,
		`{"responses":[` + whole + `,` + without + `]}`:                                      true,
		`{"responses":[` + whole + `,{"error":{},"status":429}]}`:                            true,
		`{"responses":[` + whole + `,{"error":{},"status":503}]}`:                            true,
		`{"responses":[` + whole + `,{"error":{},"status":404}]}`:                            false,
		`{"_shards":{"total":2,"successful":1,"failed":0}}`:                                  false, // a write without its replica
		`{"items":[{"index":{"_shards":{"total":2,"successful":1,"failed":1},"status":1}}]}`: true,
	} {
		require.Equal(t, partial, Partial([]byte(body)), body)
	}
}
