/** Traces through OpenTelemetry, to a collector that speaks OTLP over HTTP. Imported only where traces are asked for. */
import { AsyncLocalStorage } from 'node:async_hooks';
import {
  type Attributes,
  type Context,
  createTraceState,
  DiagLogLevel,
  diag,
  isSpanContextValid,
  type Span as OtelSpan,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  trace,
} from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { resourceFromAttributes } from '@opentelemetry/resources';
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type Sampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import type { Log } from './log.ts';
import type { TraceSettings } from './server-settings/server-settings.ts';
import type { Span, SpanAttributes, SpanOptions, Tracing } from './tracing.ts';

/** Nobody who stops a server waits longer for a collector. */
const closeMs = 3000;
const kinds = { server: SpanKind.SERVER, client: SpanKind.CLIENT, internal: SpanKind.INTERNAL };

export function startTracing(settings: TraceSettings, version: string, log: Log): Tracing {
  tellFaults(log);
  const { url, headers, timeoutMs } = settings;
  const exporter = new OTLPTraceExporter({ url, headers: { ...headers }, timeoutMillis: timeoutMs });
  const provider = new TracerProvider({
    resource: resourceFromAttributes({
      'service.name': settings.serviceName,
      'service.version': version,
      ...settings.resourceAttributes,
    }),
    sampler: samplerOf(settings.sampler),
    // Of what nobody takes 2048 are kept, and the rest is let go.
    spanProcessors: [new BatchSpanProcessor({ exporter })],
  });
  const tracer = provider.getTracer('service', version);
  const now = new AsyncLocalStorage<Context>();
  const current = () => now.getStore() ?? ROOT_CONTEXT;
  return {
    begin(name, { kind = 'internal', attributes = {}, from }: SpanOptions = {}) {
      const parent = from && settings.propagates ? contextIn(from) : current();
      const span = tracer.startSpan(
        name,
        { kind: kinds[kind], attributes: toAttributes(attributes) },
        parent,
      );
      return spanOf(span, (work) => now.run(trace.setSpan(parent, span), work));
    },
    ids() {
      const span = trace.getSpanContext(current());
      return span ? { trace_id: span.traceId, span_id: span.spanId } : {};
    },
    headers() {
      const span = trace.getSpanContext(current());
      if (!span || !settings.propagates) return {};
      const state = span.traceState?.serialize();
      const flags = span.traceFlags.toString(16).padStart(2, '0');
      return {
        traceparent: `00-${span.traceId}-${span.spanId}-${flags}`,
        ...(state && { tracestate: state }),
      };
    },
    async close() {
      const late = Promise.withResolvers<void>();
      const timer = setTimeout(late.resolve, closeMs);
      // What could not be sent has been told of by then.
      await Promise.race([provider.shutdown().catch(() => undefined), late.promise]);
      clearTimeout(timer);
    },
  };
}

function spanOf(span: OtelSpan, within: <T>(work: () => T) => T): Span {
  return {
    name: (name) => void span.updateName(name),
    set: (attributes) => void span.setAttributes(toAttributes(attributes)),
    fail(type) {
      span.setAttribute('error.type', type);
      span.setStatus({ code: SpanStatusCode.ERROR });
    },
    within,
    end: () => span.end(),
  };
}

function toAttributes(attributes: SpanAttributes): Attributes {
  return Object.fromEntries(
    Object.entries(attributes).map(([name, value]) => [name, typeof value === 'object' ? [...value] : value]),
  );
}

function samplerOf({ kind, ratio, parentBased }: TraceSettings['sampler']): Sampler {
  const samplers = {
    always_on: () => new AlwaysOnSampler(),
    always_off: () => new AlwaysOffSampler(),
    traceidratio: () => new TraceIdRatioBasedSampler(ratio),
  };
  const root = samplers[kind]();
  return parentBased ? new ParentBasedSampler({ root }) : root;
}

/** https://www.w3.org/TR/trace-context/: what cannot be read begins a new trace. */
function contextIn(headers: NonNullable<SpanOptions['from']>): Context {
  const { traceparent, tracestate } = headers;
  const [, version, traceId = '', spanId = '', flags = '', more] =
    /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/.exec(String(traceparent)) ?? [];
  const known = version !== 'ff' && (version !== '00' || more === undefined);
  const given = {
    traceId,
    spanId,
    traceFlags: Number.parseInt(flags, 16) & TraceFlags.SAMPLED,
    isRemote: true,
    ...(typeof tracestate === 'string' && { traceState: createTraceState(tracestate) }),
  };
  return known && isSpanContextValid(given) ? trace.setSpanContext(ROOT_CONTEXT, given) : ROOT_CONTEXT;
}

/** A collector that is away is told of once a minute, and not for each batch. */
const tellEveryMs = 60_000;

function tellFaults(log: Log): void {
  let toldAt = Number.NEGATIVE_INFINITY;
  const tell = (message: string): void => {
    if (performance.now() - toldAt < tellEveryMs) return;
    toldAt = performance.now();
    log.warn({ traces: message.slice(0, 300) }, 'traces could not be sent, and were let go');
  };
  const silent = () => undefined;
  diag.setLogger(
    { error: tell, warn: tell, info: silent, debug: silent, verbose: silent },
    { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
  );
}
