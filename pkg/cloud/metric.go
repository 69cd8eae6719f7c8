package cloud

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"hanbeon/pkg/once"
)

// namespace is that of all metrics in CloudWatch.
const namespace = "hanbeon"

// newMetric reports values by lines in CloudWatch's embedded metric format, of which CloudWatch Logs makes metrics: no request, no library.
// The only dimension is the kind, none when it is "": a job or a member as a dimension would make, and bill, one metric each.
func newMetric(out io.Writer, now func() time.Time) func(kind once.Kind, name string, value float64) {
	return func(kind once.Kind, name string, value float64) {
		line := map[string]any{name: value}
		dimensions := []string{}
		if kind != "" {
			line["kind"] = kind
			dimensions = []string{"kind"}
		}
		line["_aws"] = map[string]any{
			"Timestamp": now().UnixMilli(),
			"CloudWatchMetrics": []any{map[string]any{
				"Namespace":  namespace,
				"Dimensions": [][]string{dimensions},
				"Metrics":    []any{map[string]any{"Name": name}},
			}},
		}
		b, err := json.Marshal(line)
		if err != nil { // the value is infinite or no number, which CloudWatch does not take
			b = fmt.Appendf(nil, `{"level":"ERROR","msg":"metric dropped","metric":%q,"error":%q}`, name, err)
		}
		out.Write(append(b, '\n'))
	}
}
