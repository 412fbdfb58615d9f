"""An engine around FakeRunner whose KV memory checks every read, and the reference loop it must agree with."""

from dataclasses import dataclass

from dayzero.clock import FakeClock
from dayzero.core.events import FinishReason
from dayzero.core.sampling import SamplingParams
from dayzero.core.spec import EngineSpec, FakeModel
from dayzero.engine.batch import Batch, Span
from dayzero.engine.endpoints import Endpoints
from dayzero.engine.engine import Engine
from dayzero.engine.fake import FakeRunner, FingerprintMemory
from dayzero.engine.request import Request
from dayzero.engine.scheduler import Scheduler, SchedulerLimits
from dayzero.kv.cache import KVCache
from dayzero.kv.groups import CacheGroup, CacheKind
from dayzero.wire.messages import Submit

FULL = CacheGroup(kind=CacheKind.FULL, layers=(0,), bytes_per_token=1)
MODEL = FakeModel(vocab_size=32, eos_token_ids=(0,))
WINDOW = CacheGroup(kind=CacheKind.WINDOW, layers=(1,), bytes_per_token=1, window=10)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Sizes of an engine. `blocks` of each group, the null block not counted."""

    groups: tuple = (FULL,)
    blocks: tuple = (64,)
    block_size: int = 4
    prefix_cache: bool = True
    max_step_tokens: int = 16
    max_requests: int = 8
    max_context: int = 64
    max_waiting: int = 4096
    whole_spans: bool = False
    model: FakeModel = MODEL

    def limits(self):
        return SchedulerLimits(
            max_step_tokens=self.max_step_tokens,
            max_requests=self.max_requests,
            max_context=self.max_context,
            eos_token_ids=frozenset(self.model.eos_token_ids),
            max_waiting=self.max_waiting,
            whole_spans=self.whole_spans,
        )


class RecordingRunner:
    """Keeps the last batch that an inner runner was given, and the decisions of all of them if asked."""

    def __init__(self, runner):
        self._runner = runner
        self.batch = None
        self.decisions = []

    def launch(self, batch):
        self.batch = batch
        self.decisions.append([(span.request.id, span.start, span.length) for span in batch.spans])
        return self._runner.launch(batch)


class World:
    """An engine and all events it sent, by request.

    cache, scheduler   of the endpoint ""
    beside             other endpoints, of the same model
    """

    def __init__(self, setting=Setting(), *, beside=None, cache_type=KVCache, runner=None):
        self.setting = setting
        self.settings = {"": setting, **(beside or {})}
        self.clock = FakeClock()
        self.caches = {}
        firsts = [1] * len(setting.groups)
        for name, each in self.settings.items():
            self.caches[name] = cache_type(
                each.groups,
                [count + 1 for count in each.blocks],
                block_size=each.block_size,
                prefix_cache=each.prefix_cache,
                firsts=firsts,
            )
            firsts = [first + count for first, count in zip(firsts, each.blocks, strict=True)]
        self.cache = self.caches[""]
        self.schedulers = {name: Scheduler(each.limits(), self.caches[name]) for name, each in self.settings.items()}
        self.scheduler = self.schedulers[""]
        self.endpoints = Endpoints(
            self.schedulers,
            max_step_tokens=sum(each.max_step_tokens for each in self.settings.values()),
            clock=self.clock,
        )
        memory = FingerprintMemory(setting.groups, setting.block_size)
        self.runner = RecordingRunner(runner or FakeRunner(setting.model, memory=memory))
        self.engine = Engine(self.endpoints, self.runner, self.clock, spec(setting))
        self.num_submits = 0
        self.submits = {}
        self.events = {}
        self.report = None

    def submit(self, prompt, **kwargs):
        """Returns the new request's id."""
        message = submit(self.num_submits, prompt, **kwargs)
        self.num_submits += 1
        self.submits[message.request_id] = message
        self.events[message.request_id] = []
        self.engine.submit(message)
        return message.request_id

    def step(self):
        """The events of one step; each request's are collected, and none may follow its terminal one."""
        self.report = self.engine.step()
        events = [] if self.report is None else self.report.events
        for event in events:
            assert not self.finish(event.request_id), ("an event after the terminal one", event.request_id)
            self.events[event.request_id].append(event)
        return events

    def drain(self, max_steps=10_000):
        """Step until nothing is left, then assert that all requests ended and nothing is held."""
        for _ in range(max_steps):
            if not self.engine.has_work:
                break
            self.step()
        assert not self.engine.has_work, "requests that never end"
        assert all(self.finish(request_id) for request_id in self.events)
        self.endpoints.check()
        assert not any(cache.usage.used_blocks for cache in self.caches.values())
        return self

    def finish(self, request_id):
        events = self.events[request_id]
        return events[-1].finish if events else None

    def tokens(self, request_id):
        return [token for event in self.events[request_id] for token in event.tokens]

    def spans(self):
        """(request, start, length) of the last step."""
        return self.runner.decisions[-1]


def submit(request_id, prompt, *, max_tokens=4, seed=0, committed=(), params=None, **kwargs):
    """A Submit; keywords that are fields of SamplingParams go in `params`."""
    return Submit(
        request_id=request_id,
        prompt=list(prompt),
        params=SamplingParams(max_tokens=max_tokens, seed=seed, **(params or {})),
        committed=list(committed),
        **{"salt": "", "policy_version": "v1", **kwargs},
    )


def request_of(message):
    """The Request that an engine makes of a Submit."""
    return Request(
        id=message.request_id,
        prompt=message.prompt,
        params=message.params,
        salt=message.salt,
        policy_version=message.policy_version,
        priority=message.priority,
        choice=message.choice,
        attempt=message.attempt,
        output=list(message.committed),
    )


def reference(message, setting):
    """New tokens and finish of a request by the obvious loop: one request, the whole sequence in every step."""
    runner, params = FakeRunner(setting.model), message.params
    request = request_of(message)
    stops = {*params.stop_token_ids, *(() if params.ignore_eos else setting.model.eos_token_ids)}
    while True:
        tokens = request.output[len(message.committed) :]
        if len(request.output) > params.min_tokens and request.output[-1] in stops:
            return tokens, FinishReason.STOP
        if len(request.output) >= params.max_tokens or request.num_tokens >= setting.max_context:
            return tokens, FinishReason.LENGTH
        whole = Batch(1, (Span(request, 0, request.num_tokens),))
        request.output += runner.launch(whole).collect()[0].tokens


def spec(setting):
    return EngineSpec(
        model="fake",
        family="fake",
        dtype="float32",
        precision="none",
        vocab_size=setting.model.vocab_size,
        embedding_size=8,
        max_context=setting.max_context,
        eos_token_ids=setting.model.eos_token_ids,
        weight_bytes=0,
        block_size=setting.block_size,
        kv_blocks=sum(setting.blocks[:1]),
        kv_bytes=0,
        kv_dtype="none",
        max_requests=setting.max_requests,
        max_step_tokens=setting.max_step_tokens,
        threads=1,
        prefix_cache=setting.prefix_cache,
        numerics_id="fake",
        policy_version="v1",
        kernels=(),
        is_encoder=setting.whole_spans,
    )
