package dynamotest_test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"hanbeon/pkg/dynamo/dynamotest"
)

// dieAfterOpen tells a copy of this test binary to end without any clean-up.
const dieAfterOpen = "HANBEON_TEST_DIE_AFTER_OPEN"

func TestOpenInACopyOfThisBinary(t *testing.T) {
	t.Parallel()
	db := dynamotest.Open(t, "alpha")
	if os.Getenv(dieAfterOpen) != "" {
		_, _ = os.Stdout.WriteString("endpoint " + *db.Client.Options().BaseEndpoint + "\n")
		os.Exit(3)
	}
	out, err := db.Client.ListTables(t.Context(), &dynamodb.ListTablesInput{})
	if err != nil || len(out.TableNames) == 0 {
		t.Errorf("ListTables = %v, %v, want the table", out, err)
	}
}

// copyOfUs runs the test above in a process of its own.
func copyOfUs(t *testing.T, env ...string) (output string, code int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestOpenInACopyOfThisBinary$", "-test.v")
	cmd.Env = append(os.Environ(), env...)
	var b bytes.Buffer
	cmd.Stdout, cmd.Stderr = &b, &b
	_ = cmd.Run()
	return b.String(), cmd.ProcessState.ExitCode()
}

func TestTheEmulatorEndsWithATestThatDies(t *testing.T) {
	t.Parallel()
	dynamotest.Open(t) // skips where there is no emulator
	output, code := copyOfUs(t, dieAfterOpen+"=1")
	_, endpoint, found := strings.Cut(output, "endpoint http://")
	if code != 3 || !found {
		t.Fatalf("the copy ended with %d: %s", code, output)
	}
	address, _, _ := strings.Cut(endpoint, "\n")
	for range 1000 { // until the system has closed what the copy left open
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return
		}
		_ = c.Close()
		<-time.After(10 * time.Millisecond)
	}
	t.Errorf("the emulator at %s is still there", address)
}

func TestAMissingEmulatorSkipsLoudlyOrFailsWhereItIsRequired(t *testing.T) {
	t.Parallel()
	missing := "HANBEON_DYNOXIDE=" + t.TempDir() + "/none"
	output, code := copyOfUs(t, missing, "HANBEON_REQUIRE_TOOLS=")
	if code != 0 || !strings.Contains(output, "SKIPPED, NOTHING ABOUT DYNAMODB WAS TESTED") {
		t.Errorf("without the binary: code %d, output %q, want a loud skip", code, output)
	}
	output, code = copyOfUs(t, missing, "HANBEON_REQUIRE_TOOLS=1")
	if code == 0 || !strings.Contains(output, "is required") {
		t.Errorf("without the binary where it is required: code %d, output %q, want a failure", code, output)
	}
}
