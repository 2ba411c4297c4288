# `make` lists the targets.

# Build artifacts are outside the tree and shared by all clones, so that another clone or worktree compiles only the workspace
# crates (docs/adr/0004).
CACHE := $(abspath $(or $(CAIRN_CACHE),$(XDG_CACHE_HOME:%=%/cairn),$(HOME)/.cache/cairn))
export CAIRN_CACHE := $(CACHE)
export CARGO_TARGET_DIR ?= $(CACHE)/target
BIN := $(CARGO_TARGET_DIR)/debug

# Linters of dependencies: dependency rules (cargo-deny) and unused dependencies (cargo-shear).
DENY_VERSION := 0.20.2
DENY := $(CACHE)/tools/cargo-deny-$(DENY_VERSION)/bin/cargo-deny
SHEAR_VERSION := 1.12.1
SHEAR := $(CACHE)/tools/cargo-shear-$(SHEAR_VERSION)/bin/cargo-shear
# The RustSec advisory database: `make advisories` clones it, `make test` uses an existing clone (deny.toml).
ADVISORIES := $(CACHE)/advisory-dbs
# Builds the documentation site. Of the default features only search is needed.
MDBOOK_VERSION := 0.5.4
MDBOOK := $(CACHE)/tools/mdbook-$(MDBOOK_VERSION)/bin/mdbook
SITE := $(CACHE)/site
# Runs the fuzz targets in `make bench`, with the stable compiler's coverage instrumentation.
FUZZ_VERSION := 0.13.1
FUZZ := $(CACHE)/tools/cargo-fuzz-$(FUZZ_VERSION)/bin/cargo-fuzz

# A baseline of `make bench`; the product does not use it.
ORTOOLS_VERSION := 9.15.6755
CP_SAT := $(CACHE)/tools/ortools-$(ORTOOLS_VERSION)/bin/python3
BENCH := $(BIN)/bench-placement
MPI := /usr/bin/mpicc
VALGRIND := /usr/bin/valgrind
EXPORTER := /usr/bin/prometheus-node-exporter
export CAIRN_CP_SAT := $(CP_SAT) crates/baselines/cp-sat/cpsat.py

# Commands required to build, with their Debian packages. clingo is built with CMake; tests of the node agent compare its results
# with lstopo.
NEEDED := cc:gcc c++:g++ cmake:cmake pkg-config:pkg-config lstopo:hwloc
# Libraries that the node agent links, by pkg-config name; hwloc depends on libudev.
LIBRARIES := hwloc:libhwloc-dev libudev:libudev-dev
# Files required by tests of the runtime, with their Debian packages: OpenCL and its CPU driver.
LOADED := /etc/OpenCL/vendors/pocl.icd:pocl-opencl-icd /usr/lib/$(shell uname -m)-linux-gnu/libOpenCL.so.1:ocl-icd-libopencl1
# Required by tests on real nodes: runc is compiled with libseccomp.
NEEDED_BY_NODES := ip:iproute2 busybox:busybox
LIBRARIES_OF_NODES := libseccomp:libseccomp-dev

say = @printf '\n== %s\n' "$(1)"

.DEFAULT_GOAL := help
.PHONY: help demo demo-loop test docs bench bench-programs bench-runtime runtime-baselines reproduce advisories fmt lint build images clean tools tree node-tools runtime-tools

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: tree ## run the video-surveillance application on a real control plane (DEMO_HOLD=1 keeps it running)
	$(call say,building operator and agent (about 15 minutes the first time, then seconds))
	@cargo build --locked --workspace --bins
	$(call say,building the control plane (about 12 minutes, only the first time))
	@$(BIN)/cairn-e2e binaries >/dev/null
	$(call say,demo)
	@$(BIN)/cairn-e2e demo

demo-loop: tree node-tools ## move actors for measured load on two real nodes, and compare with no moves and with the best places (as root, 27 minutes)
	$(call say,building operator and agent (about 15 minutes the first time, then seconds))
	@cargo build --locked --workspace --bins
	$(call say,building the control plane and the real nodes (about 15 minutes, only the first time))
	@$(BIN)/cairn-e2e binaries --real-nodes >/dev/null
	$(call say,demo of the loop)
	@$(BIN)/cairn-e2e demo-loop

test: tree node-tools runtime-tools $(DENY) $(SHEAR) $(MDBOOK) ## run formatting, lints, dependency rules and all tests, including those on a control plane and real nodes (as root)
	$(call say,format)
	@cargo fmt --all --check
	$(call say,lints)
	@cargo clippy --locked --workspace --all-targets -- -D warnings
	$(call say,dependency rules; licences and sources of dependencies)
	@$(DENY) --locked check --hide-inclusion-graph bans licenses sources
	@if ls -d $(ADVISORIES)/*/ >/dev/null 2>&1; then \
		$(DENY) --locked check --hide-inclusion-graph --disable-fetch advisories; \
	else \
		echo "advisories: not checked, because $(ADVISORIES) does not exist; \`make advisories\` clones the database from github.com"; \
	fi
	$(call say,unused dependencies and files)
	@$(SHEAR) shear --locked --color never
	$(call say,documentation site)
	@$(MAKE) --no-print-directory docs
	$(call say,fuzz targets)
	@cargo check --quiet --locked --manifest-path fuzz/Cargo.toml
	$(call say,runtime: model checking of thread interleavings)
	@cargo test --quiet --locked --manifest-path crates/runtime/orders/Cargo.toml
	$(call say,building programs and tests)
	@cargo build --locked --workspace --lib --bins --examples --tests
	$(call say,building control plane and kubelets (about 18 minutes, only the first time))
	@$(BIN)/cairn-e2e binaries --real-nodes >/dev/null
	$(call say,tests)
	@e2e/test.sh

# A warning of mdbook fails it. Pages link to examples, policies and the chart, which lie beside docs/ in the site as they do in the tree.
docs: $(MDBOOK) ## build the documentation site
	@rm -rf $(SITE) && mkdir -p $(SITE)/charts
	@! MDBOOK_LOG=warn $(MDBOOK) build docs --dest-dir $(SITE)/docs 2>&1 | grep .
	@cp -r examples policies $(SITE) && cp -r charts/cairn $(SITE)/charts
	@echo "the site is $(SITE)/docs/index.html"

# Each completed part is a file in the cache under its commit, so that an interrupted `make bench` resumes. A tree with uncommitted
# changes, other than in docs/results, gets a name of its own.
ifneq ($(filter bench bench-runtime reproduce $(CACHE)/bench/%,$(MAKECMDGOALS)),)
COMMIT := $(shell git rev-parse --short=12 HEAD)$(shell { git diff HEAD -- . ':!docs/results'; git ls-files -z -o --exclude-standard -- . ':!docs/results' | xargs -0 -r cat; } \
	| sha1sum | awk '$$1 != "da39a3ee5e6b4b0d3255bfef95601890afd80709" { print "-" substr($$1, 1, 8) }')
export CAIRN_COMMIT := $(COMMIT)
endif
DONE := $(CACHE)/bench/$(COMMIT)$(SHORT:%=-short)
PARTS := operator scale beside scheduler chaos moves upgrade planning place-one load-tick kernels taskgraph-speed strategies large shapes clingo full-units held-out groups dense ablation heavy-tails \
	baselines brute-force programs acceptance bounds footprint trouble real-nodes $(if $(shell command -v nvidia-smi),gpus) runtime soundness fuzz structure experiments

# The size of each part. `make bench SHORT=1` is a smoke test: it runs each part on a minimal input and writes into the cache.
ifdef SHORT
RESULTS := $(DONE)/results
BEST := $(DONE)/best-known.json
SHAPES := F-,Q-
HOW_MUCH_operator := --applications 2 --actors 10 --nodes 10
HOW_MUCH_scale := --applications 20 --nodes 20 --minutes 1
HOW_MUCH_beside := --runs 1
SCHEDULED := CAIRN_WORLDS=4 CAIRN_DEVICE_WORLDS=2
SURPLUS := CAIRN_SURPLUS_ROUNDS=6
LARGE := CAIRN_LARGE_ACTORS=60 CAIRN_LARGE_NODES=8
STILL := CAIRN_STILL_APPLICATIONS=2 CAIRN_STILL_WINDOWS=8
KILLED := CAIRN_MOVE_KILLS=2
JUDGE_KILLED := CAIRN_OUTCOME_KILLS=1
NODE_KILLED := CAIRN_NODE_KILLS=1
BAD_COUNTERS := CAIRN_BAD_WINDOWS=2 CAIRN_FOREIGN_SERIES=1000
HOW_MUCH_chaos := --batches 1 --strikes 1 --nodes 20 --actors 10
HOW_MUCH_kernels := -- --warm-up-time 0.1 --measurement-time 0.1 --sample-size 10
HOW_MUCH_taskgraph-speed := --runs 1 --table-runs 1
SEEDS := 1
HOW_MUCH_strategies := --only P-8,C-64
OVER_TIME := 1
HOW_MUCH_large := --only C-4000
SECONDS := 0.5
A_MINUTE := 1
HOW_MUCH_clingo := --only P-8
GRIDS := 1
UNSEEN := 11
HOW_MUCH_held-out := --only Q-,R-
HOW_MUCH_groups := --seeds 11 --budget 1
DENSE_SEEDS := 11
DENSE_SECONDS := 0.5,1
TAILS := 51
EXPERIMENTS := cedr-sweep cedr-gantt gamma semi-static-example loop-noise loop-change
EXPERIMENT_SEEDS := gamma=1 loop-noise=2 loop-change=4
HOW_MUCH_baselines := --budgets 1 --only P-8
WORLDS := 300
POLICIES := 200
HOW_MUCH_acceptance := --runs 1 --scale 0.1
HOW_MUCH_bounds := --seconds 1 --only P-8,P-16
HOW_MUCH_footprint := --short
RUNTIME_ROWS := weight waits fibonacci
WIRE_INPUTS := 1000
UNDER_VALGRIND := -p raw
FUZZ_SECONDS := 5
else
RESULTS := docs/results
BEST := examples/instances/best-known.json
# Instance families other than P and C (examples/instances/README.md).
SHAPES := X-,F-,A-,H-,T-,S-,M-,N-,Q-,R-
SCHEDULED := CAIRN_WORLDS=200 CAIRN_DEVICE_WORLDS=50
SURPLUS := CAIRN_SURPLUS_ROUNDS=1500
LARGE := CAIRN_LARGE_ACTORS=1000 CAIRN_LARGE_NODES=200
STILL := CAIRN_STILL_APPLICATIONS=100 CAIRN_STILL_WINDOWS=360 CAIRN_STILL_SECONDS=10
KILLED := CAIRN_MOVE_KILLS=200
JUDGE_KILLED := CAIRN_OUTCOME_KILLS=7
NODE_KILLED := CAIRN_NODE_KILLS=20
BAD_COUNTERS := CAIRN_BAD_WINDOWS=20 CAIRN_FOREIGN_SERIES=1000000
SEEDS := 1,2,3
HOW_MUCH_strategies := --only P-,C-64,C-128,C-256,C-512,C-1000
OVER_TIME := 1,30
HOW_MUCH_large := --only C-4000,C-20000
SECONDS := 5
A_MINUTE := 60
GRIDS := 1 2 3 4
UNSEEN := 61 62 63
DENSE_SEEDS := 11 12 13
DENSE_SECONDS := 1,2,5,10
TAILS := 51 52 53 61 62 63
# Numbers of seeds of randomized experiments; for annealing-tables, of platforms.
EXPERIMENT_SEEDS := table-1=5 figure-4=3 surveillance=3 figure-5=3 hotspot=10 moving-hotspot=3 gated-hotspot=3 energy=3 partial-kinds=5 gamma=3 \
	annealing-tables=2 semi-static-sampling=3 semi-static-graphs=3 semi-static-cost=3 semi-static-single=3 loop-noise=100 loop-change=200
# Without the largest instances, on which CP-SAT needs more than 11 GB and finds no solution.
HOW_MUCH_baselines := --budgets 5,60 --only $(SHAPES),P-,C-64,C-128,C-256,C-512,C-1000
WORLDS := 1000
POLICIES := 1000
WIRE_INPUTS := 1000000
UNDER_VALGRIND := -p raw -p runtime
FUZZ_SECONDS := 600
endif
PLACEMENT := $(BENCH) run --resume --best $(BEST) --out $(RESULTS)/placement

bench: $(PARTS:%=$(DONE)/%) ## run all benchmarks and write docs/results (about half a day; resumes; SHORT=1 for a smoke test)
	@echo "measured at $(COMMIT), into $(RESULTS): $(PARTS)"

# The stamp of a finished part: time and cores.
done = @date -u +'%FT%TZ on $(shell nproc) cores' > $@

# Phony, because existing programs may be of another commit.
bench-programs: tree
	@mkdir -p $(DONE) $(RESULTS)/placement
	$(if $(SHORT),@cp examples/instances/best-known.json $(BEST))
	@cargo build --locked --workspace --bins --lib
	@$(BIN)/cairn-e2e binaries >/dev/null

$(DONE)/operator: | bench-programs
	$(call say,operator: kubectl apply to bound pods)
	@$(BIN)/cairn-e2e bench --results $(RESULTS) $(HOW_MUCH_operator)
	$(done)

$(DONE)/scale: | bench-programs
	$(call say,operator: 1000 applications on 1000 nodes)
	@$(BIN)/cairn-e2e scale --results $(RESULTS) $(HOW_MUCH_scale)
	$(done)

$(DONE)/beside: | bench-programs
	$(call say,operator: against kube-scheduler alone)
	@$(BIN)/cairn-e2e beside --results $(RESULTS) $(HOW_MUCH_beside)
	$(done)

$(DONE)/chaos: | bench-programs
	$(call say,operator: failover)
	@$(BIN)/cairn-e2e chaos --results $(RESULTS) $(HOW_MUCH_chaos)
	$(done)

# The older version: the previous commit, or `make bench OLDER=v0.1.0`, built in a separate tree.
OLDER := HEAD^
$(DONE)/scheduler: | bench-programs
	$(call say,operator: plans against kube-scheduler)
	@$(SCHEDULED) cargo test --locked --workspace --test scheduler random -- --nocapture > $@.log 2>&1 || { tail -40 $@.log; exit 1; }
	@$(LARGE) cargo test --locked --workspace --test scheduler large -- --nocapture > $@.large.log 2>&1 || { tail -40 $@.large.log; exit 1; }
	@$(SURPLUS) cargo test --locked --workspace --test scheduler surplus -- --nocapture > $@.surplus.log 2>&1 || { tail -40 $@.surplus.log; exit 1; }
	@{ printf '# Plans against kube-scheduler\n\nRandom worlds of 1 to 5 nodes on a real control plane. A difference between plan and kube-scheduler fails the run, except where Cairn\ndecides otherwise on purpose: a plan holds for every order in which its pods are created, so that an actor\nmay wait until others run whose topology spread or affinity counts it.\n\n'; \
		printf '| worlds with | worlds | actors placed, and bound at the first try | actors unplaced, and bound nowhere | intended differences |\n|---|---:|---:|---:|---:|\n'; \
		grep '^| ' $@.log; \
		printf '\nNodes have taints, cordons and scarce resources. Templates have node selectors, node affinity, tolerations, affinity, anti-affinity, spread, host ports,\ndisks, bound claims, requests of containers or of the whole pod, and overhead; foreign pods have anti-affinity, host ports and requests. Devices have taints and\nclaims of others; each claim holds exactly the device of the plan, and an actor is unplaced only if no device is left.\n'; \
		printf '\nOne application whose groups all have required anti-affinity over hosts and spread over zones. Costs are the first two levels of the policy\n`throughput`; kube-scheduler places the same pods without a plan. The pods of the plan bind at the first try.\n\n'; \
		printf '| actors and nodes | placement by | placed | overload | communication | time of the plan |\n|---|---|---:|---:|---:|---:|\n'; \
		grep '^| ' $@.large.log; \
		printf '\nActors with required anti-affinity over hosts, more of them than nodes, while foreign pods come and go. A repeated or unschedulable pod fails the run.\n\n'; \
		printf '| actors | nodes, each with one of them | foreign pods | minutes | evictions |\n|---:|---:|---:|---:|---:|\n'; \
		grep '^| ' $@.surplus.log; \
		printf '\nMade at %s by `make bench`, part `scheduler`:\n\n    %s cargo test --workspace --test scheduler random -- --nocapture\n' $(COMMIT) '$(SCHEDULED)'; \
		printf '    %s cargo test --workspace --test scheduler large -- --nocapture\n' '$(LARGE)'; \
		printf '    %s cargo test --workspace --test scheduler surplus -- --nocapture\n' '$(SURPLUS)'; } > $(RESULTS)/scheduler.md
	$(done)

# Noise around a steady load, and kills of the operator while actors move.
$(DONE)/moves: | bench-programs
	$(call say,operator: noise around a steady load; killed while actors move)
	@$(STILL) cargo test --locked --workspace --test product noise_around -- --nocapture > $@.still.log 2>&1 || { tail -40 $@.still.log; exit 1; }
	@$(KILLED) cargo test --locked --workspace --test product random_moments -- --nocapture > $@.kills.log 2>&1 || { tail -40 $@.kills.log; exit 1; }
	@$(JUDGE_KILLED) cargo test --locked --workspace --test product judges_moves_once -- --nocapture > $@.judge-kills.log 2>&1 || { tail -40 $@.judge-kills.log; exit 1; }
	@$(NODE_KILLED) cargo test --locked --workspace --test real_nodes kills_at_each_step -- --nocapture > $@.node-kills.log 2>&1 || { tail -40 $@.node-kills.log; exit 1; }
	@{ printf '# Moves on a control plane\n\nApplications of ten actors on three nodes each, with `rebalance: "On"`; messages of each pair and work of each actor vary by ± 20 %% from\n'; \
		printf 'window to window around what the manifest says. Required are no evictions, and no writes beside the Lease.\n\n'; \
		printf '| actors | windows | searches for measured load | evictions | writes |\n|---|---|---:|---:|---:|\n'; \
		grep '^| ' $@.still.log; \
		printf '\nFour actors move to the other of two nodes, one at a time, and the only operator gets SIGKILL up to 2.5 s after the change that makes them move.\n'; \
		printf 'At most one actor of a group is stopped at any moment, and each moves exactly once for each change; anything else fails the run. Required are 60 s.\n\n'; \
		printf '| kills | with moves open | moves | from the next leader to the last move Running: median | max |\n|---:|---:|---:|---:|---:|\n'; \
		grep '^| ' $@.kills.log; \
		printf '\nThe operator is killed before each of its first writes after moves for measured load have ended, and so while it judges them. Each decision has\n'; \
		printf 'one outcome, `paid`; anything else fails the run.\n\n| kills | outcomes |\n|---:|---:|\n'; \
		grep '^| ' $@.judge-kills.log; \
		printf '\nOn two real nodes, the kubelet, containerd or pod of the source or of the destination is killed before the actor is stopped, while it is, while\n'; \
		printf 'the next one starts, and when it runs. Actors record numbered requests: none arrived twice, no actor was in two pods, and all send at the end.\n\n'; \
		printf '| kills | processes of three actors | requests |\n|---:|---:|---:|\n'; \
		grep '^| ' $@.node-kills.log; \
		printf '\nMade at %s by `make bench`, part `moves`:\n\n    %s cargo test --workspace --test product noise_around -- --nocapture\n' $(COMMIT) '$(STILL)'; \
		printf '    %s cargo test --workspace --test product random_moments -- --nocapture\n' '$(KILLED)'; \
		printf '    %s cargo test --workspace --test product judges_moves_once -- --nocapture\n' '$(JUDGE_KILLED)'; \
		printf '    %s cargo test --workspace --test real_nodes kills_at_each_step -- --nocapture\n' '$(NODE_KILLED)'; } > $(RESULTS)/moves.md
	$(done)

$(DONE)/upgrade: | bench-programs
	$(call say,operator: upgrade and rollback)
ifdef SHORT
	@$(BIN)/cairn-e2e upgrade --older $(CURDIR) --programs $(BIN) --name itself --results $(RESULTS)
else
	@older=$$(git rev-parse --short=12 $(OLDER)) && tree=$(CACHE)/older/$$older && mkdir -p $$tree && git archive $$older | tar -x -C $$tree \
		&& CARGO_TARGET_DIR=$(CACHE)/older/target cargo build --quiet --locked --workspace --bins --manifest-path $$tree/Cargo.toml \
		&& $(BIN)/cairn-e2e upgrade --older $$tree --programs $(CACHE)/older/target/debug --name $$older --results $(RESULTS)
endif
	$(done)

$(DONE)/planning: | bench-programs
	$(call say,offline planning of small instances)
	@$(BIN)/cairn-e2e planning --results $(RESULTS)
	$(done)

$(DONE)/place-one: | bench-programs
	$(call say,placing one requested Instance)
	@cargo bench --locked --profile dev --workspace --bench place_one > $@.log || { cat $@.log; exit 1; }
	@{ printf '# Placing one requested Instance\n\n'; sed -n '/^| measured/,$$p' $@.log; \
		printf '\nMade at %s, on %s cores, by `make bench`:\n\n    cargo bench --locked --profile dev --workspace --bench place_one\n' $(COMMIT) $(shell nproc); } > $(RESULTS)/place-one.md
	$(done)

$(DONE)/load-tick: | bench-programs
	$(call say,reading the load of a large cluster, and bad answers of Prometheus)
	@cargo bench --locked --profile dev --workspace --bench tick > $@.log || { cat $@.log; exit 1; }
	@$(BAD_COUNTERS) cargo test --locked --workspace --test product bad_facts -- --nocapture > $@.bad.log 2>&1 || { tail -40 $@.bad.log; exit 1; }
	@{ sed -n '/^# Reading/,$$p' $@.log; \
		printf '\nAn operator on a control plane, two nodes and an application of four actors, reads a real Prometheus with windows of 3 s through a proxy that makes the answers\n'; \
		printf 'bad. Nothing would move, or the run fails; refused samples and windows are counted by reason. The peak is the resident memory of the process (target 300 MB). A second\n'; \
		printf 'Prometheus has a million series of foreign pods. At the end, true samples of another hot pair are followed.\n\n'; \
		printf '| messages of the pairs | windows | counted as | peak, MB |\n|---|---:|---|---:|\n'; \
		grep '^| ' $@.bad.log; \
		printf '\nMade at %s, on %s cores, by `make bench`:\n\n    cargo bench --locked --profile dev --workspace --bench tick\n' $(COMMIT) $(shell nproc); \
		printf '    %s cargo test --workspace --test product bad_facts -- --nocapture\n' '$(BAD_COUNTERS)'; } > $(RESULTS)/load-tick.md
	$(done)

$(DONE)/kernels: | bench-programs
	$(call say,microbenchmarks)
	@cargo bench --locked --profile dev --workspace --bench kernels --bench rounds --bench mappers $(HOW_MUCH_kernels) > $@.log || { cat $@.log; exit 1; }
	@docs/results/logs.py criterion $@.log > $@.table
	@{ printf '# Microbenchmarks\n\nSingle functions of the search, the schedulers and the mappers, wall clock on %s cores (criterion).\n\n' $(shell nproc); cat $@.table; \
		printf '\nMade at %s by `make bench`:\n\n    cargo bench --locked --profile dev --workspace --bench kernels --bench rounds --bench mappers\n' $(COMMIT); } > $(RESULTS)/kernels.md
	$(done)

$(DONE)/taskgraph-speed: | bench-programs
	$(call say,speed of task graph scheduling and mapping)
	@docs/results/taskgraph-speed.py $(BIN)/cairn-sim --commit $(COMMIT) --out $(RESULTS) $(HOW_MUCH_taskgraph-speed)
	$(done)

$(DONE)/strategies: | bench-programs
	$(call say,placement: strategies on instances)
	@$(PLACEMENT) --strategies asp,local,greedy,metis --budgets $(SECONDS) --seeds $(SEEDS) $(HOW_MUCH_strategies)
	@$(PLACEMENT) --strategies asp --budgets $(OVER_TIME) --seeds $(SEEDS) $(HOW_MUCH_strategies)
	$(done)

$(DONE)/large: | bench-programs
	$(call say,placement: strategies on large instances)
	@$(PLACEMENT)/large --strategies asp,local,greedy,metis --budgets $(A_MINUTE) --seeds $(SEEDS) $(HOW_MUCH_large)
	$(done)

# Instances of other shapes than those used for tuning; 5 s against 60 s.
$(DONE)/shapes: | bench-programs
	$(call say,placement: other shapes of instances)
	@$(PLACEMENT) --strategies asp,local,greedy,metis --budgets $(SECONDS) --seeds $(SEEDS) --only $(SHAPES)
	@$(PLACEMENT) --strategies asp --budgets $(A_MINUTE) --seeds $(SEEDS) --only $(SHAPES)
	$(done)

# ASP alone on the shipped programs, at every size.
$(DONE)/clingo: | bench-programs
	$(call say,placement: clingo alone)
	@$(PLACEMENT) --strategies clingo --budgets $(SECONDS) --seeds $(SEEDS) $(HOW_MUCH_clingo)
	@$(PLACEMENT) --strategies clingo --budgets $(A_MINUTE) --seeds 1 $(HOW_MUCH_clingo)
	$(done)

# Grids of exclusive devices against robust tabu search.
$(DONE)/full-units: | bench-programs
	$(call say,placement: full units)
	@mkdir -p $(DONE)/grids
	@for seed in $(GRIDS); do python3 examples/instances/generate.py Q 64 64 $$seed > $(DONE)/grids/Q-64x64-s$$seed.json; done
	@$(PLACEMENT)/full-units --instances $(DONE)/grids --strategies asp,local,tabu --budgets $(SECONDS) --seeds $(SEEDS)
	$(done)

# Held-out instances: seeds of the shapes that no design decision used; 5 s against 60 s.
$(DONE)/held-out: | bench-programs
	$(call say,placement: held-out instances)
	@mkdir -p $(DONE)/unseen
	@cargo build --locked --workspace --examples
	@for seed in $(UNSEEN); do \
		$(BIN)/examples/shapes $(DONE)/unseen $$seed || exit 1; \
		python3 examples/instances/generate.py Q 64 64 $$seed > $(DONE)/unseen/Q-64x64-s$$seed.json || exit 1; \
		python3 examples/instances/generate.py R 98 98 $$seed > $(DONE)/unseen/R-98x98-s$$seed.json || exit 1; \
	done
	@$(PLACEMENT)/held-out --processor --instances $(DONE)/unseen --strategies asp,greedy,metis --budgets $(SECONDS) --seeds $(SEEDS) $(HOW_MUCH_held-out)
	@$(PLACEMENT)/held-out --processor --instances $(DONE)/unseen --strategies asp --budgets $(A_MINUTE) --seeds 1 $(HOW_MUCH_held-out)
	$(done)

$(DONE)/groups: | bench-programs
	$(call say,placement: channels between large groups)
	@docs/results/placement/groups.py $(BIN)/kubectl-cairn --commit $(COMMIT) --out $(RESULTS)/placement $(HOW_MUCH_groups)
	$(done)

# The densest instance with increasing budgets: overrun, and monotonicity in the budget.
$(DONE)/dense: | bench-programs
	$(call say,placement: 120000 edges over several budgets)
	@mkdir -p $(DONE)/dense-worlds
	@docs/results/placement/groups.py --snapshots $(DONE)/dense-worlds --seeds $(DENSE_SEEDS)
	@$(PLACEMENT)/dense --instances $(DONE)/dense-worlds --strategies asp --budgets $(DENSE_SECONDS) --seeds $(SEEDS)
	$(done)

# By CPU time, as the machine may be shared. Components are also removed where they cannot act.
$(DONE)/ablation: | bench-programs
	$(call say,placement: ablation)
	@$(PLACEMENT)/ablation --processor --budgets $(SECONDS) --seeds $(SEEDS) --only $(SHAPES) \
		--strategies asp,$$($(BENCH) strategies | sed -n 's/^\(asp-without-[a-z-]*\) .*/\1/p' | paste -sd,)
	$(done)

# Components that help on at most one shape, on more instances of that shape.
$(DONE)/heavy-tails: | bench-programs
	$(call say,placement: ablation on more heavy tails)
	@mkdir -p $(DONE)/tails
	@cargo build --locked --workspace --examples
	@for seed in $(TAILS); do $(BIN)/examples/shapes $(DONE)/tails $$seed || exit 1; done
	@$(PLACEMENT)/heavy-tails --processor --instances $(DONE)/tails --only H- --budgets $(SECONDS) --seeds $(SEEDS) \
		--strategies asp,asp-without-starts,asp-without-late-runs
	$(done)

$(DONE)/baselines: | bench-programs $(CP_SAT)
	$(call say,placement: OR-Tools CP-SAT)
	@$(PLACEMENT) --strategies cp-sat --seeds $(SEEDS) $(HOW_MUCH_baselines)
	$(done)

$(DONE)/brute-force: | bench-programs
	$(call say,placement: optimality against brute force)
	@CAIRN_EXACT_WORLDS=$(WORLDS) cargo test --locked --workspace --test all exact::random -- --nocapture > $@.log || { cat $@.log; exit 1; }
	@{ printf '# Optimality against brute force\n\nRandom small instances with every feature of a snapshot, each solved by `asp` to the optimum over all assignments, which an\nindependent oracle enumerates. A feature is decisive where removing it changes the optimum.\n\n'; \
		sed -n '/^|/p' $@.log; \
		printf '\nMade at %s by `make bench`:\n\n    CAIRN_EXACT_WORLDS=%s cargo test --workspace --test all exact::random -- --nocapture\n' $(COMMIT) $(WORLDS); } > $(RESULTS)/placement/exact.md
	$(done)

$(DONE)/programs: | bench-programs
	$(call say,placement: random policies)
	@CAIRN_PROGRAMS=$(POLICIES) cargo test --locked --workspace --test all programs::any -- --nocapture > $@.log || { cat $@.log; exit 1; }
	@{ printf '# Policy language: random programs\n\nRandom policies over all productions of the language, each on a random small instance (features marked ·). For every assignment, the grounded rules\nand clingo on the source program agree on violations and cost; the best assignment without violations equals the optimum\nof the shipped programs.\n\n'; \
		sed -n '/^|/p' $@.log; \
		printf '\nMade at %s by `make bench`:\n\n    CAIRN_PROGRAMS=%s cargo test --workspace --test all programs::any -- --nocapture\n' $(COMMIT) $(POLICIES); } > $(RESULTS)/placement/programs.md
	$(done)

$(DONE)/acceptance: | bench-programs
	$(call say,placement: acceptance benchmarks)
	@$(BENCH) acceptance --out $(RESULTS)/placement $(HOW_MUCH_acceptance)
	$(done)

$(DONE)/bounds: | bench-programs
	$(call say,placement: proven bounds)
	@$(BENCH) bound --resume --best $(BEST) --out $(RESULTS)/placement $(HOW_MUCH_bounds)
	$(done)

$(DONE)/footprint: | bench-programs $(EXPORTER)
	$(call say,node agent: footprint)
	@$(BIN)/cairn-e2e footprint --results $(RESULTS) $(HOW_MUCH_footprint)
	$(done)

$(DONE)/trouble: | bench-programs
	$(call say,node agent: leak test under churn)
	@$(BIN)/cairn-e2e footprint --trouble --results $(RESULTS) $(HOW_MUCH_footprint)
	$(done)

$(DONE)/real-nodes: | bench-programs node-tools
	$(call say,node agent: real kubelets)
	@$(BIN)/cairn-e2e binaries --real-nodes >/dev/null
	@cargo test --locked --workspace --test real_nodes -- --nocapture > $@.log 2>&1 || { tail -40 $@.log; exit 1; }
	@docs/results/logs.py real-nodes $@.log > $@.table && mkdir -p $(RESULTS)/node-agent
	@{ printf '# Node agent on real kubelets\n\nTwo kubelets with containerd and runc on one machine of %s cores; operator and agents run as pods of the chart. First the agents discover\nthe hardware; after an upgrade they publish a described machine with GPUs, as this one has none.\n\n' $(shell nproc); cat $@.table; \
		printf '\nMade at %s by `make bench`, from the output of the test `real_nodes`:\n\n    cargo test -p e2e --test real_nodes -- --nocapture\n' $(COMMIT); } > $(RESULTS)/node-agent/real-nodes.md
	$(done)

# Needs an NVIDIA GPU.
$(DONE)/gpus: | bench-programs
	$(call say,node agent: against nvidia-smi)
	@$(BIN)/cairn-e2e gpus --results $(RESULTS)
	$(done)

$(DONE)/runtime: | bench-programs
	@$(MAKE) --no-print-directory bench-runtime RESULTS=$(RESULTS) ROWS='$(or $(ROWS),$(RUNTIME_ROWS))'
	$(done)

# Skips rows that are already measured for this commit; ROWS="jacobi-2 waits*" selects rows. The tables give the commit of each row.
bench-runtime: tree runtime-tools $(if $(ROWS),,runtime-baselines)
	$(call say,runtime: against raw limits)
	@cargo build --locked --workspace --bin cairn-run --examples
	@$(BIN)/examples/measure --out $(RESULTS)/runtime --commit $(COMMIT) $(foreach row,$(ROWS),'$(row)')

runtime-baselines: tree runtime-tools $(MPI)
	@mkdir -p $(BIN)/examples
	@mpicc -O2 -o $(BIN)/examples/ping_pong_mpi crates/runtime/examples/opponents/ping_pong.c
	@# bindgen loads libclang, a dependency of the OpenCL driver that runtime-tools installs.
	@cargo build --quiet --locked --release --target-dir $(CARGO_TARGET_DIR)/iceoryx2 --manifest-path crates/runtime/examples/opponents/iceoryx2/Cargo.toml
	@cp $(CARGO_TARGET_DIR)/iceoryx2/release/ping_pong_iceoryx2 $(BIN)/examples/

# Child processes run without valgrind.
$(DONE)/soundness: | bench-programs $(VALGRIND)
	$(call say,runtime: parsers on random inputs, tests under valgrind)
	@CAIRN_WIRE_INPUTS=$(WIRE_INPUTS) cargo test --locked -p runtime --lib -- no_input_makes_a_reader_panic > $@.inputs.log 2>&1 || { tail -40 $@.inputs.log; exit 1; }
	@CARGO_TARGET_$(shell uname -m | tr a-z A-Z)_UNKNOWN_LINUX_GNU_RUNNER="$(VALGRIND) -q --error-exitcode=1 --fair-sched=yes --max-stackframe=8000000 --suppressions=$(CURDIR)/crates/runtime/valgrind.supp" \
		cargo test --locked $(UNDER_VALGRIND) --tests -- --test-threads=1 > $@.log 2>&1 || { tail -40 $@.log; exit 1; }
	@{ printf "# Soundness of the runtime\n\nParsers of messages, copy headers, topologies and host files on %s random inputs:\n\n" $(WIRE_INPUTS); \
		docs/results/logs.py tests $@.inputs.log && \
		printf "\nTests under valgrind memcheck (%s), one at a time, child processes excluded. Any report fails the test.\n\n" '$(UNDER_VALGRIND)'; \
		docs/results/logs.py tests $@.log && \
		printf '\nMade at %s by `make bench`, part `soundness`.\n' $(COMMIT); } > $@.page && mkdir -p $(RESULTS)/runtime && mv $@.page $(RESULTS)/runtime/soundness.md
	$(done)

FUZZED := snapshot plan policy taskgraph wire
# Failing inputs stay in fuzz/artifacts.
$(DONE)/fuzz: | bench-programs $(FUZZ)
	$(call say,fuzzing of parsers and planners ($(FUZZ_SECONDS) s each))
	@for target in $(FUZZED); do \
		mkdir -p $(CACHE)/fuzz/$$target fuzz/corpus/$$target; \
		RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=$(CACHE)/fuzz/target PATH="$(dir $(FUZZ)):$$PATH" cargo fuzz run --sanitizer none $$target \
			$(CACHE)/fuzz/$$target fuzz/corpus/$$target -- -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 2> $@.$$target.log \
			|| { tail -40 $@.$$target.log; exit 1; }; \
	done
	@{ printf '# Fuzzing\n\nCoverage-guided fuzzing (cargo-fuzz) of parsers and planners from the corpus in `fuzz/corpus`; no input failed. `snapshot` and `plan` take\na whole snapshot file.\n\n'; \
		docs/results/logs.py fuzz $(foreach target,$(FUZZED),$(target)=$@.$(target).log) && \
		printf '\nMade at %s by `make bench`, part `fuzz`: %s s each.\n' $(COMMIT) $(FUZZ_SECONDS); } > $@.page && mv $@.page $(RESULTS)/fuzz.md
	$(done)

# The last commit before names, comments and folders were rewritten.
BEFORE_REWRITING := e418a64e
$(DONE)/structure: | bench-programs
	$(call say,structure of the source tree)
	@{ printf '# Structure of the source tree\n\nRead by [structure.py](structure.py) per crate: dependencies, files, longest file, lines, and modules that use each other.\nProduction lines are the lines under `src` outside `#[cfg(test)]` modules. Of the criteria, those are counted whose names mean nothing else.\n\n## Now\n\n'; \
		docs/results/structure.py && printf '\n## Before the rewriting in the vocabulary of the field (%s)\n\n' $(BEFORE_REWRITING) && docs/results/structure.py --rev $(BEFORE_REWRITING) && \
		printf '\nMade at %s by `make bench`, part `structure`:\n\n    docs/results/structure.py [--rev REV]\n' $(COMMIT); } > $@.page && mv $@.page $(RESULTS)/structure.md
	$(done)

$(DONE)/experiments: | bench-programs
	@$(MAKE) --no-print-directory reproduce
	$(done)

# Runs the experiments in the order of `cairn-sim experiment --list` and skips those that are done for this commit. The second column
# of the list is the paper, which names the folder of the results.
reproduce: tree ## reproduce the figures of the papers and write docs/results (resumes; part of make bench)
	@mkdir -p $(DONE)
	@cargo build --locked --workspace --bin cairn-sim
	@$(BIN)/cairn-sim experiment --list | while read -r experiment paper rest; do \
		folder=$(RESULTS)/$$(printf %s "$$paper" | tr A-Z a-z | tr -cd a-z-); \
		seeds=$$(printf '%s\n' $(EXPERIMENT_SEEDS) | sed -n "s/^$$experiment=//p"); \
		case " $(EXPERIMENTS) " in "  " | *" $$experiment "*) ;; *) continue ;; esac; \
		if [ -e $(DONE)/experiment-$$experiment ]; then echo "$$experiment: done at $(COMMIT)"; continue; fi; \
		printf '\n== %s\n' $$experiment; \
		$(BIN)/cairn-sim experiment $$experiment $${seeds:+--seeds $$seeds} --out $$folder </dev/null || exit 1; \
		date -u +%FT%TZ > $(DONE)/experiment-$$experiment; \
	done

advisories: $(DENY) ## update the RustSec advisory database in the cache, and check it
	@$(DENY) --locked check --hide-inclusion-graph advisories

fmt: ## format the code
	@cargo fmt --all

lint: tree ## check formatting and lints only
	@cargo fmt --all --check
	@cargo clippy --locked --workspace --all-targets -- -D warnings

build: tree ## build all programs
	@cargo build --locked --workspace --bins
	@echo "built in $(BIN): cairn-operator, cairn-node-agent, kubectl-cairn, cairn-e2e"

images: tree ## build OCI archives of operator and node agent in images/, which run as non-root
	@cargo build --locked --workspace --bins
	@$(BIN)/cairn-e2e images

clean: ## remove build artifacts of the workspace crates; dependencies stay in the cache
	@cargo clean --workspace
	@echo "dependencies are in $(CACHE); delete it for a clean build"

tools:
	@missing=; for need in $(NEEDED); do command -v $${need%%:*} >/dev/null || missing="$$missing $${need##*:}"; done; \
	for need in $(LIBRARIES); do pkg-config --exists $${need%%:*} 2>/dev/null || missing="$$missing $${need##*:}"; done; \
	if [ -n "$$missing" ]; then \
		if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
			echo "missing packages, required to build clingo and the node agent:$$missing" >&2; exit 1; \
		fi; \
		echo "installing$$missing, required to build clingo and the node agent"; \
		apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $$missing >/dev/null; \
	fi
	@command -v cargo >/dev/null || { echo "cargo is not on the PATH: install Rust, https://rustup.rs (rust-toolchain.toml names the version)" >&2; exit 1; }
	@command -v go >/dev/null || { echo "go is not on the PATH: install Go 1.26 or newer, https://go.dev/doc/install; it builds the control plane of demo and tests" >&2; exit 1; }

# Programs and tests contain the path of their tree, but cargo compares only timestamps. After a build of another clone, artifacts of
# the workspace crates must be removed.
tree: tools
	@if [ "$$(cat $(CARGO_TARGET_DIR)/tree 2>/dev/null)" != "$(CURDIR)" ]; then \
		if [ -e $(CARGO_TARGET_DIR)/debug ]; then echo "recompiling the workspace crates, because the cache has artifacts of another clone"; cargo clean --quiet --locked --workspace; fi; \
		mkdir -p $(CARGO_TARGET_DIR) && echo "$(CURDIR)" > $(CARGO_TARGET_DIR)/tree; \
	fi

node-tools: tools
	@missing=; for need in $(NEEDED_BY_NODES); do command -v $${need%%:*} >/dev/null || missing="$$missing $${need##*:}"; done; \
	for need in $(LIBRARIES_OF_NODES); do pkg-config --exists $${need%%:*} 2>/dev/null || missing="$$missing $${need##*:}"; done; \
	if [ "$$(id -u)" != 0 ]; then \
		echo "tests on real nodes run kubelets, which need root: run as root, for example in a container with --privileged" >&2; exit 1; \
	elif [ -n "$$missing" ]; then \
		command -v apt-get >/dev/null || { echo "missing packages, required to run kubelets:$$missing" >&2; exit 1; }; \
		echo "installing$$missing, required to run kubelets"; \
		apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $$missing >/dev/null; \
	fi

runtime-tools: tools
	@missing=; for need in $(LOADED); do test -e $${need%%:*} || missing="$$missing $${need##*:}"; done; \
	if [ -n "$$missing" ]; then \
		if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
			echo "missing packages, required to test the runtime on a device:$$missing" >&2; exit 1; \
		fi; \
		echo "installing$$missing, required to test the runtime on a device"; \
		apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $$missing >/dev/null; \
	fi

# A debug build, which takes half the time; its build directory is deleted.
$(DENY): | tools
	$(call say,building cargo-deny $(DENY_VERSION) (a few minutes, only once))
	@CARGO_TARGET_DIR=$(CACHE)/tools/build cargo install --quiet --locked --debug --version $(DENY_VERSION) --root $(CACHE)/tools/cargo-deny-$(DENY_VERSION) cargo-deny
	@rm -rf $(CACHE)/tools/build

$(MDBOOK): | tools
	$(call say,building mdbook $(MDBOOK_VERSION) (two minutes, only once))
	@CARGO_TARGET_DIR=$(CACHE)/tools/build-mdbook cargo install --quiet --locked --debug --no-default-features --features search --version $(MDBOOK_VERSION) --root $(CACHE)/tools/mdbook-$(MDBOOK_VERSION) mdbook
	@rm -rf $(CACHE)/tools/build-mdbook

$(FUZZ): | tools
	$(call say,building cargo-fuzz $(FUZZ_VERSION) (a minute, only once))
	@CARGO_TARGET_DIR=$(CACHE)/tools/build-fuzz cargo install --quiet --locked --debug --version $(FUZZ_VERSION) --root $(CACHE)/tools/cargo-fuzz-$(FUZZ_VERSION) cargo-fuzz
	@rm -rf $(CACHE)/tools/build-fuzz

$(SHEAR): | tools
	$(call say,building cargo-shear $(SHEAR_VERSION) (two minutes, only once))
	@CARGO_TARGET_DIR=$(CACHE)/tools/build-shear cargo install --quiet --locked --debug --version $(SHEAR_VERSION) --root $(CACHE)/tools/cargo-shear-$(SHEAR_VERSION) cargo-shear
	@rm -rf $(CACHE)/tools/build-shear

# A baseline of the runtime's channels; the product does not use it.
$(MPI): | tools
	$(call say,installing Open MPI (a baseline))
	@[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null || { echo "missing packages, required for the comparison with Open MPI: openmpi-bin libopenmpi-dev" >&2; exit 1; }
	@apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends openmpi-bin libopenmpi-dev >/dev/null

# A baseline of the node agent's footprint; the benchmark starts it.
$(EXPORTER): | tools
	$(call say,installing prometheus-node-exporter)
	@[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null || { echo "missing package, required for the comparison: prometheus-node-exporter" >&2; exit 1; }
	@apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends prometheus-node-exporter >/dev/null

# Runs the runtime's tests in `make bench`; `make test` does not need it.
$(VALGRIND): | tools
	$(call say,installing valgrind)
	@[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null || { echo "missing package, required to run tests under valgrind: valgrind" >&2; exit 1; }
	@apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends valgrind >/dev/null

$(CP_SAT): | tools
	$(call say,installing OR-Tools $(ORTOOLS_VERSION) (a baseline))
	@command -v python3 >/dev/null || { echo "python3 is not on the PATH: OR-Tools needs it; on Debian, apt install python3-venv" >&2; exit 1; }
	@python3 -m venv $(CACHE)/tools/ortools-$(ORTOOLS_VERSION)
	@$(CP_SAT) -m pip install --quiet --disable-pip-version-check ortools==$(ORTOOLS_VERSION) || { rm -rf $(CACHE)/tools/ortools-$(ORTOOLS_VERSION); exit 1; }
