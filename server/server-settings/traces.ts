/** The settings of traces: the variables that OpenTelemetry has for all programs, as far as they mean something here. */
import { Fault, type SettingSource } from './setting-source.ts';

/** Where traces go, and which; see https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/. */
export interface TraceSettings {
  /** Where spans are sent to. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly serviceName: string;
  readonly resourceAttributes: Readonly<Record<string, string>>;
  readonly sampler: {
    readonly kind: 'always_on' | 'always_off' | 'traceidratio';
    readonly ratio: number;
    /** Whether whoever asks has decided already, where they have. */
    readonly parentBased: boolean;
  };
  /** Whether requests that come in and go out say which trace they belong to. */
  readonly propagates: boolean;
}

/** Null where nobody asked for traces: they are asked for by naming a collector. */
export function readTraces(source: SettingSource): TraceSettings | null {
  const disabled = source.read({
    variable: 'OTEL_SDK_DISABLED',
    meaning: 'Whether there are no traces, whatever the others say.',
    fallback: false,
    parse: (text) => text.toLowerCase() === 'true',
  });
  const exporter = source.read<'otlp' | 'none' | null>({
    variable: 'OTEL_TRACES_EXPORTER',
    meaning: 'otlp: sends traces to the collector. none: sends none.',
    fallback: null,
    fallbackText: '(otlp where a collector is named)',
    parse: (text) => (text === 'otlp' || text === 'none' ? text : new Fault('must be otlp or none.')),
  });
  const { url, isNamed } = readEndpoint(source);
  const settings = {
    url,
    headers: readHeaders(source),
    timeoutMs: source.read({
      variable: 'OTEL_EXPORTER_OTLP_TIMEOUT',
      meaning: 'How many milliseconds the collector may take to accept what it is sent.',
      fallback: 10_000,
      parse: (text) =>
        /^[1-9]\d{0,5}$/.test(text) ? Number(text) : new Fault('must be a number of milliseconds, as 10000.'),
    }),
    serviceName: source.read({
      variable: 'OTEL_SERVICE_NAME',
      meaning: 'What this server is called in traces.',
      fallback: 'service',
      parse: (text) => text,
    }),
    resourceAttributes: source.read<Readonly<Record<string, string>>>({
      variable: 'OTEL_RESOURCE_ATTRIBUTES',
      meaning:
        'What else is told of this server in traces, as deployment.environment.name=production,team=a.',
      fallback: {},
      parse: pairs,
    }),
    sampler: readSampler(source),
    propagates: source.read({
      variable: 'OTEL_PROPAGATORS',
      meaning:
        'tracecontext: requests that come in and go out say which trace they belong to (traceparent). none: they do not.',
      fallback: true,
      fallbackText: '(tracecontext)',
      parse: (text) => {
        const named = text.split(',').map((name) => name.trim());
        return (
          named.includes('tracecontext') ||
          (named.every((name) => name === 'none') ? false : new Fault('must be tracecontext or none.'))
        );
      },
    }),
  };
  const wanted = exporter === null ? isNamed : exporter === 'otlp';
  return wanted && !disabled ? settings : null;
}

function readEndpoint(source: SettingSource): { readonly url: string; readonly isNamed: boolean } {
  const base = source.read<string | null>({
    variable: 'OTEL_EXPORTER_OTLP_ENDPOINT',
    meaning:
      'The collector that traces are sent to, as http://localhost:4318; it has to speak OTLP over HTTP.',
    fallback: null,
    parse: webAddress,
  });
  const own = source.read<string | null>({
    variable: 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT',
    meaning: 'The same with its path, as http://localhost:4318/v1/traces; it goes before the other.',
    fallback: null,
    parse: webAddress,
  });
  // One that nobody reads here would be taken for obeyed.
  source.read({
    variable: 'OTEL_EXPORTER_OTLP_PROTOCOL',
    meaning:
      'How the collector is spoken to: in JSON over HTTP, which every collector takes that takes http/protobuf.',
    fallback: 'http/json',
    parse: (text) =>
      /^http\/(json|protobuf)$/.test(text)
        ? 'http/json'
        : new Fault('must be http/json: send to the port for HTTP, as 4318.'),
  });
  const url = own ?? `${(base ?? 'http://localhost:4318').replace(/\/$/, '')}/v1/traces`;
  return { url, isNamed: base !== null || own !== null };
}

function readHeaders(source: SettingSource): Readonly<Record<string, string>> {
  return source.read<Readonly<Record<string, string>>>({
    variable: 'OTEL_EXPORTER_OTLP_HEADERS',
    meaning:
      'Headers for the collector, as authorization=Bearer%20secret. OTEL_EXPORTER_OTLP_HEADERS_FILE names a file that holds them.',
    fallback: {},
    secret: true,
    parse: pairs,
  });
}

function readSampler(source: SettingSource): TraceSettings['sampler'] {
  const { kind, parentBased } = source.read<Omit<TraceSettings['sampler'], 'ratio'>>({
    variable: 'OTEL_TRACES_SAMPLER',
    meaning:
      'Which traces are kept: always_on, always_off, traceidratio, each also behind parentbased_, where a caller that has decided is followed.',
    fallback: { kind: 'always_on', parentBased: true },
    fallbackText: '(parentbased_always_on)',
    parse: (text) => {
      const [, parent, found] = /^(parentbased_)?(always_on|always_off|traceidratio)$/.exec(text) ?? [];
      const kind = (['always_on', 'always_off', 'traceidratio'] as const).find((one) => one === found);
      if (!kind)
        return new Fault('must be always_on, always_off or traceidratio, or parentbased_ and one of them.');
      return { kind, parentBased: parent !== undefined };
    },
  });
  const ratio = source.read({
    variable: 'OTEL_TRACES_SAMPLER_ARG',
    meaning: 'For traceidratio: which part of the traces is kept, from 0 to 1.',
    fallback: 1,
    parse: (text) =>
      /^(0(\.\d+)?|1(\.0+)?)$/.test(text) ? Number(text) : new Fault('must be a number from 0 to 1, as 0.1.'),
  });
  return { kind, parentBased, ratio };
}

/** As in the header Baggage: values are percent-encoded. */
function pairs(text: string): Readonly<Record<string, string>> | Fault {
  const found: Record<string, string> = {};
  for (const pair of text.split(',').filter((part) => part.trim() !== '')) {
    const [, name, value = ''] = /^\s*([!#$%&'*+.^_`|~\w-]+)\s*=\s*([^\s]*)\s*$/.exec(pair) ?? [];
    const decoded = name === undefined ? null : decode(value);
    if (name === undefined || decoded === null)
      return new Fault('must list name=value with commas between, the values percent-encoded.');
    found[name] = decoded;
  }
  return found;
}

function decode(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    // It throws a URIError for what is not encoded, and has no other way to say so.
    return null;
  }
}

function webAddress(text: string): string | Fault {
  const url = URL.canParse(text) ? new URL(text) : null;
  const usable = url && /^https?:$/.test(url.protocol) && !url.username && !url.search && !url.hash;
  return usable
    ? text
    : new Fault('must be an address as http://localhost:4318; what is secret goes into the headers.');
}
