package attempts

// The key of a partition: prefix:{group:topic:partition}. The braces are the hash tag, so that a Cluster keeps whatever is
// ever stored beside it on the same node. Two different triples never share a key, since colons and braces inside
// the names are escaped.

import (
	"net/url"
	"strconv"
)

func key(prefix, group string, p Partition) string {
	return prefix + ":{" + url.QueryEscape(group) + ":" + url.QueryEscape(p.Topic) + ":" + strconv.Itoa(int(p.Partition)) + "}"
}
