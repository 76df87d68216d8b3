# The manager's image: `docker build -t pykueue:latest .`
#
# Two stages, so that neither pip's cache, the build backend nor the sources are in the result. It runs as nobody in
# particular, writes nothing but /tmp, and needs no shell: the command is executed as it is.
#
# The base is pinned by its version. To pin it by its content, look up the digest of that tag
# (`docker buildx imagetools inspect python:3.13.9-slim-trixie`) and pass it: `--build-arg BASE=python@sha256:...`.
ARG BASE=python:3.13.9-slim-trixie

FROM ${BASE} AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /source
COPY requirements/run.txt requirements/build.txt requirements/
# Everything that is downloaded is checked against the hashes of what we test.
RUN python -m venv /opt/build \
    && /opt/build/bin/pip install --require-hashes -r requirements/build.txt \
    && python -m venv /opt/pykueue \
    && /opt/pykueue/bin/pip install --require-hashes -r requirements/run.txt
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --no-index --wheel-dir dist . \
    && /opt/pykueue/bin/pip install --no-deps --no-index dist/*.whl \
    && /opt/pykueue/bin/pip uninstall --yes pip

FROM ${BASE}
COPY --from=build /opt/pykueue /opt/pykueue
ENV PATH=/opt/pykueue/bin:$PATH PYTHONUNBUFFERED=1
USER 65532:65532
ENTRYPOINT ["pykueue"]
CMD ["manager", "--config=/controller_manager_config.yaml"]
