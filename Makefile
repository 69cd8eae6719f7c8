# `make help` lists what there is. Nothing here needs Docker, an AWS account or a configured region.

DYNOXIDE := 3.2.0
SAM      := 1.170.0
CFN_LINT := 1.58.0
STATICCHECK := v0.8.1
SCHEMATHESIS := 4.32.5
BOTOCORE := 1.44.8
RIE      := v0.0.0-20261030222936-bef5c4ba774d

# Tools live under .tools, which git and go ignore. They are needed by some tests, never by the program.
TOOLS := $(CURDIR)/.tools
BIN   := $(TOOLS)/bin
VENV  := $(TOOLS)/venv

export SAM_CLI_TELEMETRY := 0

.DEFAULT_GOAL := help
.PHONY: help run test race bench lint build fire invoke emulators fuzz validate sam-build tools clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## the main job on this machine: 10,000 members, one month, once; needs only Go
	go run ./cmd/hanbeon demo --members 10000

test: tools ## all tests; fetches the tools that some need, and says what it has to skip
	@test -x $(BIN)/dynoxide -o -n "$$HANBEON_DYNOXIDE" || printf '\n  SKIPPED: the tests of the DynamoDB store, for want of dynoxide.\n\n' >&2
	@test -x $(BIN)/aws-lambda-rie -o -n "$$HANBEON_RIE" || printf '\n  SKIPPED: the functions under the runtime interface emulator of AWS Lambda, for want of that.\n\n' >&2
	@test -x $(VENV)/bin/sam -o -n "$$HANBEON_PYTHON" || printf '\n  SKIPPED: the tests of the transformed template, for want of aws-sam-cli.\n\n' >&2
	go test -timeout 30m ./...

race: tools ## all tests under the race detector
	go test -race -timeout 60m ./...

bench: ## benchmarks: grants per second, cost per grant, growth
	go test -run '^$$' -bench . -benchmem ./...

lint: ## gofmt, go vet, staticcheck, go mod tidy -diff
	@unformatted=$$(find . -name '*.go' -not -path './.*' | xargs gofmt -l); test -z "$$unformatted" || { echo "not formatted by gofmt:"; echo "$$unformatted"; exit 1; }
	go vet ./... ./testdata/invoke
	go run honnef.co/go/tools/cmd/staticcheck@$(STATICCHECK) ./... ./testdata/invoke
	go mod tidy -diff

build: ## the command, as bin/hanbeon
	CGO_ENABLED=0 go build -trimpath -o bin/hanbeon ./cmd/hanbeon

validate: tools ## sam validate --lint
	$(VENV)/bin/sam validate --lint

sam-build: tools ## sam build: the functions as they are deployed, into .aws-sam
	$(VENV)/bin/sam build

tools: ## the emulators of DynamoDB (needs cargo, some minutes) and of the Lambda runtime, and aws-sam-cli (needs python3), once, into .tools
	@test -x $(BIN)/aws-lambda-rie -o -n "$$HANBEON_RIE" || { \
	  echo "installing the runtime interface emulator of AWS Lambda"; \
	  GOBIN=$(BIN) go install github.com/aws/aws-lambda-runtime-interface-emulator/cmd/aws-lambda-rie@$(RIE) || echo "MISSING: aws-lambda-rie could not be installed" >&2; }
	@test -x $(BIN)/dynoxide -o -n "$$HANBEON_DYNOXIDE" || { \
	  if command -v cargo >/dev/null; then \
	    echo "installing dynoxide $(DYNOXIDE), which takes some minutes"; \
	    cargo install --quiet --locked dynoxide-rs --version $(DYNOXIDE) --root $(TOOLS) || echo "MISSING: dynoxide could not be installed" >&2; \
	  else echo "MISSING: cargo, to install dynoxide with" >&2; fi; }
	@test -x $(VENV)/bin/sam || { \
	  if command -v python3 >/dev/null; then \
	    echo "installing aws-sam-cli $(SAM)"; \
	    { python3 -m venv $(VENV) && $(VENV)/bin/pip install --quiet --disable-pip-version-check aws-sam-cli==$(SAM) cfn-lint==$(CFN_LINT); } || echo "MISSING: aws-sam-cli could not be installed" >&2; \
	  else echo "MISSING: python3, to install aws-sam-cli with" >&2; fi; }

fire: ## the whole stack on this machine, in one process, with the firing of events/dispatcher.json, until Ctrl-C
	go run ./cmd/hanbeon local --fire events/dispatcher.json

invoke: tools ## one function, the real binary under Lambda's runtime emulator: make invoke FUNCTION=til [EVENT=events/til.json]
	@test -n "$(FUNCTION)" || { echo "which one? make invoke FUNCTION=til [EVENT=events/til.json]; functions: $(notdir $(wildcard functions/*))" >&2; exit 2; }
	go run ./testdata/invoke -function $(FUNCTION) $(if $(EVENT),-event $(EVENT))

emulators: tools ## what functions call, for `sam local invoke` (Docker), until Ctrl-C; where Docker runs on Linux: LISTEN=172.17.0.1:4566
	go run ./testdata/invoke -serve $(or $(LISTEN),127.0.0.1:4566)

fuzz: build ## the API of `hanbeon local` against its OpenAPI document, by schemathesis (needs python3)
	@test -x $(TOOLS)/fuzz/bin/st || { python3 -m venv $(TOOLS)/fuzz && $(TOOLS)/fuzz/bin/pip install --quiet --disable-pip-version-check schemathesis==$(SCHEMATHESIS) botocore==$(BOTOCORE); }
	testdata/fuzz/run.sh bin/hanbeon $(TOOLS)/fuzz/bin/st

clean: ## removes what was built; keeps .tools
	rm -rf bin .aws-sam

# What sam build calls for each function, with BuildMethod makefile: a static `bootstrap` for the architecture of the template, in ARTIFACTS_DIR.

ARCHITECTURE = $(if $(shell grep -E '^ *Architectures: \[arm64\]' template.yaml),arm64,amd64)

build-ApiFunction: FUNCTION = api
build-DispatcherFunction: FUNCTION = dispatcher
build-FanoutFunction: FUNCTION = fanout
build-MonthlyPointFunction: FUNCTION = monthly-point
build-ReaperFunction: FUNCTION = reaper
build-TilFunction: FUNCTION = til

build-%Function:
	CGO_ENABLED=0 GOOS=linux GOARCH=$(ARCHITECTURE) go build -tags lambda.norpc -trimpath -buildvcs=false -ldflags "-s -w" -o $(ARTIFACTS_DIR)/bootstrap ./functions/$(FUNCTION)
