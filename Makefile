# Each target sets up what it needs; nothing is installed outside .venv and the package tools' own caches.
PYTHON ?= python3
PY := .venv/bin/python

.PHONY: setup demo deploy-check image wheel test check bench bench-client bench-curves bench-door bench-overload bench-kinds bench-parts bench-replication bench-spark clean coverage-rows interop test-browser test-install test-pure test-spark test-spark-long torture torture-store torture-ha fuzz-kernel guard-kernel hunt-races simulate
# The kernel compiles while packages arrive; whichever of the two is there already is left as it is.
setup:
	@$(MAKE) -q .venv/.ready .venv/.kernel || $(MAKE) --no-print-directory -j2 .venv/.ready .venv/.kernel

.venv/.tools: pyproject.toml requirements.lock
	$(PYTHON) -m venv .venv && $(PY) -m pip install -q -U -c requirements.lock pip cython setuptools && touch $@

.venv/.ready: .venv/.tools
	PYROMQ_KERNEL_ONLY=none $(PY) -m pip install -q --no-compile -c requirements.lock --no-build-isolation -e '.[dev,spark]' && $(PY) tools/nghttp2.py && touch $@

.venv/.kernel: .venv/.tools setup.py $(wildcard src/pyromq/_kernel/*/*.pyx src/pyromq/_kernel/*/*.pxd src/pyromq/_kernel/*/*.h)
	$(PY) setup.py -q build_ext --inplace && touch $@

demo: setup      ## A cluster, messages, and a Spark pipeline over them
	PATH="$(CURDIR)/.venv/bin:$$PATH" $(PY) examples/demo.py

# $(call beside,one,other): both at the same time; what the one prints comes at the end.
beside = mkdir -p .cache && { { $(1); } > .cache/$@-beside.txt 2>&1 & } && one=$$!; \
	$(2); other=$$?; wait $$one; one=$$?; cat .cache/$@-beside.txt; exit $$((one + other))

check: setup     ## Format, lint, types, import contracts, rules, unit tests
	.venv/bin/ruff format --check . && .venv/bin/ruff check .
	$(call beside,.venv/bin/mypy && .venv/bin/lint-imports --cache-dir .cache/imports,\
	$(PY) -m pytest -q -n 2 tests/tidy tests/unit)

# For two cores. Tests that mostly wait get more workers than there are cores; a file stays with one of them,
# so that its servers start once.
FILES := --dist loadfile --no-loadscope-reorder
QUICK := $(FILES) -m "not long"

test: check coverage-rows   ## Everything that CI runs (15 minutes on two cores)
	$(PY) -m pytest -q -n 4 $(QUICK) tests/conformance tests/fuzz tests/functional tests/crash tests/simulation
	$(call beside,PYROMQ_PURE=1 $(PY) -m pytest -q tests/unit/store tests/unit/broker tests/conformance tests/functional/test_broker_*.py tests/functional/test_flush*.py tests/functional/test_client_round_trip.py && $(PY) -m pytest -q tests/spark/test_spark_batch.py && $(PY) -m pytest -q tests/browser/test_dashboard_pages.py,\
	$(PY) -m pytest -q -n 4 $(QUICK) tests/ha tests/system tests/interop)

test-browser: setup   ## The dashboard in Chromium: each page, each change, 1,000 topics and 2,000 groups (about 4 minutes)
	$(PY) -m pytest -q tests/browser

test-pure: setup      ## Everything that the kernel has a part in, without it (~90 s)
	PYROMQ_PURE=1 $(PY) -m pytest -q -n 4 $(FILES) tests/unit/store tests/unit/broker tests/conformance tests/functional/test_[bkr]*.py tests/functional/test_flush*.py tests/functional/test_client_round_trip.py

hunt-races: setup     ## Tests whose waits look at once, late, or never the same way twice, five times over (RACES=files)
	for turn in 1 2 3 4 5; do $(PY) -m pytest -q -p haste -n 4 $(QUICK) $(or $(RACES),tests/functional) || exit 1; done

wheel: setup          ## Manylinux wheels for the Pythons that are here, and the sdist, in dist/; each is installed and tried (about 5 minutes)
	$(PY) tools/wheel.py

deploy-check: setup   ## What is in deploy/: units, manifests, compose file, their settings and commands
	$(PY) tools/deploy_check.py

# docker, podman or buildah; a base with Python 3.11 or later and venv, or BASE=debootstrap: one of Debian's packages.
image: wheel          ## An image of PyroMQ from its wheels, and a try of it (BASE=python:3.12-slim-bookworm DOCKER= BUILD= RUN=)
	$(PY) tools/image.py $(if $(DOCKER),--engine $(DOCKER)) $(if $(BASE),--base $(BASE)) $(if $(BUILD),--build="$(BUILD)") $(if $(RUN),--run="$(RUN)")

test-install: setup   ## `pip install` with a C compiler, with one that fails, without one, and of a wheel (about two minutes)
	$(PY) -m pytest -q -m install tests/system

test-spark: setup      ## All of Spark that takes no kills: sources, sink, jobs, pipelines, their how-to, Apache's brokers (~10 minutes)
	$(PY) -m pytest -q tests/spark tests/interop/test_spark_on_apache.py tests/interop/test_spark_sink_on_apache.py

.venv/.pipelines: .venv/.ready
	PYROMQ_KERNEL_ONLY=none $(PY) -m pip install -q -c requirements.lock --no-build-isolation -e '.[dev,pipelines]' && touch $@

test-spark-long: setup .venv/.pipelines   ## Drivers, tasks, executors and brokers killed at each step of a batch, on clusters too: each row once (half an hour, an hour on a busy machine)
	$(PY) -m pytest -q tests/spark_long

torture-store: setup   ## Kills, power cuts, damage and made-up inputs, for longer; a failure tells its seed (~40 minutes)
	PYROMQ_EFFORT=6 $(PY) -m pytest -q -n 2 -o timeout=900 tests/crash tests/fuzz

# An etcd: the one on the path, or Debian's, fetched into .cache.
ETCD = $$(PYTHONPATH=tests/support:tests/interop $(PY) -c 'import etcd; print(etcd.program())')
TORTURE = .venv/bin/pyromq torture --etcd "$(ETCD)"

simulate: setup        ## 1,000 simulated clusters with faults, each decided by a seed (SIMULATE='--schedules 5000 --seed 1'; ten minutes on two cores)
	$(PY) tools/simulate.py $(SIMULATE)

torture: setup         ## Every kind of message, faults of every kind, two groups of two with failover (TORTURE_MINUTES=30)
	$(TORTURE) --minutes $(or $(TORTURE_MINUTES),30) --brokers 2 --replicas 2 --sync --data .cache/torture

torture-ha: setup      ## Short runs of a group with failover, settings and faults drawn from seeds; each can be replayed (about an hour)
	$(TORTURE) --rounds 60 --vary --minutes 0.3 --replicas 3 --sync
	$(TORTURE) --rounds 15 --vary --minutes 0.3 --replicas 2
	$(TORTURE) --rounds 10 --vary --minutes 0.3 --replicas 3 --sync --namespaces

fuzz-kernel: setup     ## A minute of mutated inputs for the compiled kernel, under the compiler's sanitizers
	$(PY) tools/fuzz_kernel.py

guard-kernel: setup    ## How many instructions the kernel needs for fixed work, and a whole broker for a send, against what was recorded
	$(PY) tools/kernel_instructions.py

interop: setup   ## The real Java, Go, C++ and JavaScript clients, and real Apache brokers: all of it (~30 minutes)
	$(PY) -m pytest -q -n 2 $(FILES) tests/interop

coverage-rows: setup   ## Rows of the specification without a test; fails if there is one
	$(PY) tools/coverage_rows.py

bench: setup     ## PyroMQ beside Apache's brokers, and which goals are met; at most 20 minutes (BENCH=--quick: 4)
	$(PY) bench/versus.py $(BENCH)

bench-curves: setup   ## Speed and cost against connections, queues, message size, stored messages, brokers; at most 10 minutes (BENCH=--quick: 3)
	$(PY) bench/curves.py $(BENCH)

bench-door: setup   ## gRPC and POP beside Apache's 5.5 with its proxy; about 8 minutes (BENCH=--quick: 2)
	$(PY) bench/door.py $(BENCH)

bench-client: setup   ## Our Python client beside the Java client and the C++ wheel, on one broker; about 4 minutes
	$(PY) bench/client.py $(BENCH)

bench-kinds: setup   ## Any delay with 5 million waiting, SQL filters, transactions beside Apache 4.9 (BENCH=--quick: less of each)
	$(PY) bench/delayed.py $(BENCH)
	$(PY) bench/sql.py
	$(PY) bench/transactions.py $(BENCH)

bench-spark: setup   ## A topic as a Spark table beside pre-built Arrow and Spark's Kafka connector; about 6 minutes (BENCH=--quick: 2)
	$(PY) bench/spark.py $(BENCH)

bench-replication: setup   ## What synchronous replication costs, and how long a switch of masters takes; about 7 minutes (BENCH=--quick: 1)
	$(PY) bench/replication.py $(BENCH)

bench-overload: setup   ## Sends at twice the rate that a broker bears: what is accepted, how late, beside Apache 4.9; about 3 minutes (BENCH=--quick: 1)
	$(PY) bench/overload.py $(BENCH)

bench-parts: setup   ## Start-up time, memory, and the speed of the store, of recovery and of verify
	for part in startup store_micro recovery verify; do echo "== $$part"; $(PY) bench/$$part.py || exit 1; done

clean:
	rm -rf .venv .cache build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
