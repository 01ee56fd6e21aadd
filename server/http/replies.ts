/** How answers leave: replies whole, streams event by event, and all of them held to the contract where that is asked. */
import { chunksOf, joined, sendChunks } from './chunks.ts';
import type { Exchange } from './exchange.ts';
import type { Caller, Ports } from './ports.ts';
import { sendFailure, sendReply } from './reply.ts';
import { createStreams, isStreamed } from './streams.ts';
import { createStrictness } from './strict.ts';
import { type AnyReply, eventsOf } from './wire.ts';

export interface Replies {
  /** Where the answer will be a stream: takes a place for it, before the handler begins anything. */
  admit(exchange: Exchange, body: unknown, caller: Caller | null): void;
  send(exchange: Exchange, reply: AnyReply, caller: Caller | null): Promise<void>;
  fail(exchange: Exchange, error: unknown): void;
  /** Ends every stream with an `error` event: the server stops. */
  endStreams(): void;
}

export function createReplies(ports: Ports): Replies {
  const strict = ports.settings.strict ? createStrictness() : null;
  const streams = createStreams(ports, strict);
  return {
    admit(exchange, body, caller) {
      if (caller && exchange.route && isStreamed(exchange.route, body)) streams.admit(exchange, caller);
    },
    async send(exchange, reply, caller) {
      const events = eventsOf(reply);
      const chunks = chunksOf(reply);
      if (events && caller) await streams.send(exchange, reply, events, caller);
      else if (chunks && strict && reply.type === 'application/json')
        sendReply(exchange, await joined(reply, chunks), ports, strict);
      else if (chunks) await sendChunks(exchange, reply, chunks, ports, strict);
      else sendReply(exchange, reply, ports, strict);
    },
    endStreams: streams.endAll,
    fail: (exchange, error) => sendFailure(exchange, error, ports, strict),
  };
}
