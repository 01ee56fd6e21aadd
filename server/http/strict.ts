/** Holds every answer to the contract: status, media type, headers, body, and each event of a stream. */
import type { ServerEvent, StreamPiece } from '../handler.ts';
import {
  child,
  contractDocument,
  follow,
  isNode,
  list,
  type Node,
  operationOf,
} from './contract-document.ts';
import { type SchemaCompiler, schemaCompiler } from './contract-schemas.ts';
import type { Exchange } from './exchange.ts';
import type { WireReply } from './wire.ts';

/** Checks answers before they are sent; each answers with what is wrong, or null. */
export interface Strictness {
  checkReply(exchange: Exchange, reply: WireReply): string | null;
  checkEvent(exchange: Exchange, event: ServerEvent): string | null;
  checkPiece(exchange: Exchange, piece: StreamPiece): string | null;
}

/** On in every server test and with `--strict`; it costs a parse and a validation an answer. */
export function createStrictness(): Strictness {
  const compiler = schemaCompiler({ allErrors: false });
  const checkEvent: Strictness['checkEvent'] = (exchange, event) => {
    const media = child(child(declaredResponse(exchange, 200) ?? {}, 'content'), 'text/event-stream');
    return checkFrame(compiler, child(media, 'schema'), event);
  };
  return {
    checkEvent,
    checkPiece(exchange, piece) {
      if (!('written' in piece)) return checkEvent(exchange, piece);
      const violations = eventsIn(piece.written).map((event) => checkEvent(exchange, event));
      return violations.find((violation) => violation !== null) ?? null;
    },
    checkReply(exchange, reply) {
      const response = declaredResponse(exchange, reply.status);
      if (!response) return `the status ${reply.status} is not declared`;
      return checkHeaders(compiler, exchange, reply, response) ?? checkContent(compiler, reply, response);
    },
  };
}

/** Paths and methods outside the contract are answered as its shared failures say. */
function declaredResponse(exchange: Exchange, status: number): Node | null {
  const shared = child(child(contractDocument(), 'components'), 'responses');
  if (!exchange.route) return child(shared, exchange.surface === 'messages' ? 'MessagesFailure' : 'Problem');
  const responses = child(operationOf(exchange.route), 'responses');
  const declared = responses[String(status)] ?? responses.default;
  return isNode(declared) ? follow(declared) : null;
}

function checkHeaders(
  compiler: SchemaCompiler,
  exchange: Exchange,
  reply: WireReply,
  response: Node,
): string | null {
  const sent = new Map(
    Object.entries({ ...exchange.response.getHeaders(), ...reply.headers }).map(([name, value]) => [
      name.toLowerCase(),
      String(value),
    ]),
  );
  for (const [name, declared] of Object.entries(child(response, 'headers'))) {
    const header = isNode(declared) ? follow(declared) : {};
    const value = sent.get(name.toLowerCase());
    if (value === undefined && header.required === true && reply.type !== 'text/event-stream')
      return `the header ${name} is missing`;
    if (value !== undefined && !compiler.compile(child(header, 'schema'))(value))
      return `the header ${name} is not valid: ${value}`;
  }
  return null;
}

function checkContent(compiler: SchemaCompiler, reply: WireReply, response: Node): string | null {
  const content = child(response, 'content');
  const declared = Object.keys(content);
  if (reply.type === null) return declared.length === 0 ? null : 'the body is missing';
  const [type = ''] = reply.type.split(';');
  if (!declared.includes(type)) return `the media type ${type} is not declared`;
  if (type === 'text/event-stream') return null;
  return checkBody(compiler, child(child(content, type), 'schema'), type, reply.payload);
}

function checkBody(
  compiler: SchemaCompiler,
  schema: Node,
  type: string,
  payload: WireReply['payload'],
): string | null {
  const text = typeof payload === 'string' ? payload : Buffer.from(payload ?? '').toString();
  return violationOf(compiler, schema, type.endsWith('json') ? JSON.parse(text) : text);
}

/** Frames that somebody else has written are read as a client would read them. */
function eventsIn(written: Uint8Array): ServerEvent[] {
  const frames = Buffer.from(written).toString().split('\n\n').slice(0, -1);
  return frames.map((frame) => {
    const [, name = 'message', data = ''] = /^event: (.*)\ndata: ?(.*)$/.exec(frame) ?? [];
    return { name, data: JSON.parse(data) };
  });
}

function checkFrame(compiler: SchemaCompiler, schema: Node, event: ServerEvent): string | null {
  const name = event.name ?? 'message';
  const frames = list(follow(schema), 'oneOf').map(follow);
  const frame = frames.find((one) => child(child(one, 'properties'), 'event').const === name);
  if (!frame) return `no event is called ${name}`;
  const { data, seq } = event;
  const written = {
    event: name,
    data: JSON.stringify(data),
    ...(seq === undefined ? {} : { id: String(seq) }),
  };
  const payload = child(child(child(frame, 'properties'), 'data'), 'contentSchema');
  return violationOf(compiler, frame, written) ?? violationOf(compiler, payload, JSON.parse(written.data));
}

function violationOf(compiler: SchemaCompiler, schema: Node, value: unknown): string | null {
  const validate = compiler.compile(schema);
  if (validate(value)) return null;
  const [error] = validate.errors ?? [];
  return `${error?.instancePath} ${error?.message} ${JSON.stringify(error?.params)}`;
}
