# The manager's image: `docker build -t pykueue:latest .`
#
# Two stages, so that neither pip's cache nor the sources are in the result. It runs as nobody in particular, writes
# nothing but /tmp, and needs no shell: the command is executed as it is.
FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY requirements/dev.txt requirements/dev.txt
COPY src src
# The versions that we test; their hashes would have to cover this package too, which has none yet.
RUN sed -E '/^ *--hash/d; s/ *\\$//' requirements/dev.txt > versions.txt \
    && python -m venv /opt/pykueue \
    && /opt/pykueue/bin/pip install --no-cache-dir --constraint versions.txt . \
    && /opt/pykueue/bin/pip uninstall --yes pip

FROM python:3.13-slim
COPY --from=build /opt/pykueue /opt/pykueue
ENV PATH=/opt/pykueue/bin:$PATH PYTHONUNBUFFERED=1
USER 65532:65532
ENTRYPOINT ["pykueue"]
CMD ["manager", "--config=/controller_manager_config.yaml"]
