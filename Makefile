# make run    a whole RocketMQ in the foreground, nameserver on 127.0.0.1:9876: BROKERS=3 replicas, CONTROLLERS=3 (or 1 and 0), or MODE=dledger
# make test   everything CI runs: ruff, mypy, trial, pytest with the real Java processes
# Both set up what they need on a fresh machine: a venv in .venv, the package, and for test the Java jars, by Maven.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# The newest supported Python on the PATH, unless told: make PYTHON=/usr/bin/python3.12 run
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin

RUN_DIR ?= data
HOST ?= 127.0.0.1
NAMESRV_PORT ?= 9876
BROKER_PORT ?= 10911
CONTROLLER_PORT ?= 9878
# One broker in one process with the nameserver: make run BROKERS=1 CONTROLLERS=0 (another RUN_DIR, or an unused one)
BROKERS ?= 3
CONTROLLERS ?= 3
# Who elects the master: controller, or dledger (the brokers themselves; another RUN_DIR, or an unused one)
MODE ?= controller
# Everything under TLS, each process with an identity of its own, from an authority in RUN_DIR/pki: make run SECURE=1
SECURE ?=
PKI = $(RUN_DIR)/pki
# More flags for rocketha-cluster, for example RUN_FLAGS="--http 8088"
RUN_FLAGS ?=

.PHONY: help
help:
	@sed -n '1,3s/^# //p' Makefile
	@echo 'Longer:     make soak | make attacks | make bench | make bench-raft | make interop-full | make mqadmin-table | make certificate | make fuzz | make fuzz-access | make simulate | make test-minimum | make test-pythons | make test-sparks | make coverage'
	@echo 'Smaller:    make lint | make types | make trial | make tests/interop/fetch_jars | make format | make clean'

# ---- the virtual environment. One stamp for each set of packages; the second waits for the first, so -j is safe.

$(VENV)/.stamp-python:
	@test -n "$(PYTHON)" || { echo "rocketha needs Python 3.11 or newer; none found on the PATH (set PYTHON=...)" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
		{ echo "could not make a venv; on Debian and Ubuntu: apt install python3-venv" >&2; rm -rf $(VENV); exit 1; }
	@touch $@

$(VENV)/.stamp-run: $(VENV)/.stamp-python setup.cfg setup.py pyproject.toml src/rocketha/_compiled.pyx twisted/plugins/rocketha_plugins.py
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.stamp-tls: $(VENV)/.stamp-run
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[tls]'
	@touch $@

$(VENV)/.stamp-test: $(VENV)/.stamp-run
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@

.PHONY: install
install: $(VENV)/.stamp-run

# ---- run

.PHONY: run
run: $(if $(SECURE),$(PKI)/.made,$(VENV)/.stamp-run)
	@mkdir -p $(RUN_DIR)
	@exec $(BIN)/twistd --nodaemon --pidfile= --logger rocketha.observe.logging.console_observer \
		rocketha-cluster --data $(RUN_DIR) --host $(HOST) \
		--brokers $(BROKERS) --mode $(MODE) $(if $(filter dledger,$(MODE)),,--controllers $(CONTROLLERS)) --namesrv-port $(NAMESRV_PORT) \
		--broker-port $(BROKER_PORT) --controller-port $(CONTROLLER_PORT) $(if $(SECURE),--tls $(PKI)) $(RUN_FLAGS)

$(PKI)/.made: | $(VENV)/.stamp-tls
	@$(BIN)/rocketha pki cluster $(PKI) --host $(HOST) --host 127.0.0.1 --host localhost \
		--brokers $(BROKERS) $(if $(filter dledger,$(MODE)),,--controllers $(CONTROLLERS))
	@touch $@

# ---- test

# The status page and the report are looked at in a browser; where it cannot be had, these tests say so and are skipped.
.PHONY: browser
browser:
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || { \
		test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium chromium-driver; \
	} >/dev/null 2>&1 || echo "no Chromium; on Debian: apt install chromium chromium-driver" >&2

.PHONY: test
test: $(VENV)/.stamp-test tests/interop/fetch_jars browser
	@$(BIN)/python .ci/suite

.PHONY: lint types trial
lint: $(VENV)/.stamp-test
	$(BIN)/ruff check .
types: $(VENV)/.stamp-test
	$(BIN)/mypy
trial: $(VENV)/.stamp-test
	$(BIN)/python .ci/suite trial

# the documents as a site, in build/site
.PHONY: docs
docs: $(VENV)/.stamp-test
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs build/site
	@echo 'open build/site/index.html'

.PHONY: format
format: $(VENV)/.stamp-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The real RocketMQ, by Maven, and the clients of other languages, into a cache outside the tree. A machine without a JDK or
# Maven skips interop, one without Go or Node those clients, and says so.
.PHONY: tests/interop/fetch_jars
tests/interop/fetch_jars: $(VENV)/.stamp-test
	@$(BIN)/python -W ignore::RuntimeWarning -m tests.interop.harness.jars >/dev/null || \
		echo "the tests against the real RocketMQ will be skipped" >&2
	@$(BIN)/python -m tests.interop.harness.foreign >/dev/null

# ---- longer

.PHONY: soak attacks bench bench-raft bench-heartbeats interop-full fuzz simulate coverage test-minimum
# kill -9 under load and the long disk fault loops
soak: $(VENV)/.stamp-test tests/interop/fetch_jars
	ROCKETHA_SOAK=1 $(BIN)/python -m pytest tests -m soak

# strangers against real processes, a line each; some of them: make attacks ATTACKS="notice status"
ATTACKS ?=
attacks: $(VENV)/.stamp-test
	$(BIN)/python -m tests.attacks $(ATTACKS)

# side by side with Java; ratios
bench: $(VENV)/.stamp-test tests/interop/fetch_jars
	$(BIN)/python -m benchmarks

# our Raft against etcd and PySyncObj; about ten minutes
bench-raft: $(VENV)/.stamp-test
	$(BIN)/python -m benchmarks.raft_bench

# what 5,000 brokers' heartbeats cost a controller
bench-heartbeats: $(VENV)/.stamp-test
	$(BIN)/python -m benchmarks.raft_heartbeats

# every client and mqadmin case at full size
interop-full: $(VENV)/.stamp-test tests/interop/fetch_jars
	ROCKETHA_INTEROP_FULL=1 $(BIN)/python -m pytest tests/interop

# docs/mqadmin.rst: every command of Java's mqadmin against Java's servers and ours; some minutes
.PHONY: mqadmin-table
mqadmin-table: $(VENV)/.stamp-test tests/interop/fetch_jars
	$(BIN)/python -m tests.interop.mqadmin_table

# docs/interop.md: several releases of Java's servers, and every client, with ours; about forty minutes. Some rows again, those
# whose names have all words: make certificate ROWS="5.1.4 slave"
ROWS ?=
.PHONY: certificate
certificate: $(VENV)/.stamp-test tests/interop/fetch_jars
	$(BIN)/python -m tests.interop.certificate --rows $(ROWS)

FUZZ_CASES ?= 1000000
FUZZ_SEED ?= 1
# every format's own reader, in this process; against a port: rocketha fuzz remoting --connect HOST:PORT
fuzz: $(VENV)/.stamp-test
	$(BIN)/rocketha fuzz remoting --seed $(FUZZ_SEED) --cases $(FUZZ_CASES)

# a million cases each against Java's nameserver and broker, begun anew when it dies; an hour
.PHONY: fuzz-java
fuzz-java: $(VENV)/.stamp-test tests/interop/fetch_jars
	$(BIN)/python -m tests.interop.fuzz_java --cases $(FUZZ_CASES) --seed $(FUZZ_SEED) both

# hostile frames at the DLedger port of a group of ours, and of Java's
.PHONY: fuzz-dledger
fuzz-dledger: $(VENV)/.stamp-test tests/interop/fetch_jars
	$(BIN)/python -m tests.interop.fuzz_dledger --seed $(FUZZ_SEED) both

ACCESS_CASES ?= 200000
# every port of a secured RocketMQ of ours, in the clear and under TLS; a fresh seed unless FUZZ_SEED is given
.PHONY: fuzz-access
fuzz-access: $(VENV)/.stamp-test
	$(BIN)/python -m tests.fuzz.access --cases $(ACCESS_CASES) $(if $(filter command%,$(origin FUZZ_SEED)),--seed $(FUZZ_SEED))

SEEDS ?= 1000
FIRST_SEED ?= 1
# whole clusters in simulated time; one seed again: rocketha simulate controller --seed N --trace
simulate: $(VENV)/.stamp-test
	$(BIN)/rocketha simulate raft --seeds $(FIRST_SEED)..$$(($(FIRST_SEED) + $(SEEDS) - 1)) --jobs 2
	$(BIN)/rocketha simulate controller --seeds $(FIRST_SEED)..$$(($(FIRST_SEED) + $(SEEDS) - 1)) --jobs 2
	$(BIN)/rocketha simulate cluster --seeds $(FIRST_SEED)..$$(($(FIRST_SEED) + $(SEEDS) - 1)) --jobs 2
	$(BIN)/rocketha simulate dledger --seeds $(FIRST_SEED)..$$(($(FIRST_SEED) + $(SEEDS) - 1)) --jobs 2

coverage: $(VENV)/.stamp-test
	$(BIN)/coverage run -m pytest tests --ignore tests/interop --ignore tests/tidy
	$(BIN)/coverage report

# the lower bounds of setup.cfg, in a venv of their own
test-minimum: $(VENV)/.stamp-python
	$(BIN)/python .ci/minimum build/venv-minimum

# a wheel, a first message and a part of the tests with each Python that is at hand
PYTHONS ?= $(wildcard $(foreach v,3.11 3.12 3.13 3.14,$(foreach d,$(subst :, ,$(PATH)),$(d)/python$(v))))
.PHONY: test-pythons
test-pythons: $(VENV)/.stamp-python
	$(BIN)/python .ci/pythons build/pythons $(PYTHONS)

# the data source, audits, figures and streams with each release of Spark
SPARKS ?= 4.0 4.1 4.2 4.3
.PHONY: test-sparks
test-sparks: $(VENV)/.stamp-python
	$(BIN)/python .ci/sparks build/sparks $(SPARKS)

.PHONY: clean distclean
clean:
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis _trial_temp*
distclean: clean
	rm -rf $(VENV) build dist src/rocketha.egg-info
