package harness

import (
	"bytes"
	"regexp"
)

// searched matches the numbers of shards of a search in an answer. Answers to writes have no
// "skipped": of theirs copies may be missing that nobody asks for.
var searched = regexp.MustCompile(`"total"\s*:\s*(\d+)\s*,\s*"successful"\s*:\s*(\d+)\s*,\s*"skipped"`)

// failed matches shards that failed, and searches of several that the cluster could not do.
var failed = regexp.MustCompile(`"failed"\s*:\s*[1-9]|"status"\s*:\s*(429|5\d\d)`)

// Partial reports whether a part of what was asked for is missing from an answer, in any place
// of it. Shards without a copy to search are none that failed: they are not successful, either.
func Partial(body []byte) bool {
	for _, shards := range searched.FindAllSubmatch(body, -1) {
		if !bytes.Equal(shards[1], shards[2]) {
			return true
		}
	}
	return failed.Match(body)
}
