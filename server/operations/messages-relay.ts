/** Passes a Messages request on to a provider that speaks the same API: nothing of it, or of its answer, is put into other words. */
import type { MessagesResponse } from '../contract/api.ts';
import type { AskedModels, Call, SpentByCall, WrittenEvents } from '../handler.ts';

/** A call that is metered already. */
export interface Relay {
  readonly call: Call<'createMessage'>;
  /** Its full name. */
  readonly model: string;
  /** Among which it is. */
  readonly models: AskedModels;
  readonly spent: (spending: SpentByCall) => Promise<void>;
}

/** The whole answer, which names the model as the client does. */
export async function relayWhole(relay: Relay): Promise<MessagesResponse> {
  const answer = await asked(relay);
  if (!('message' in answer)) throw new Error('A whole answer was due');
  // The vendor says what it is; with --strict it is held to the contract like any other answer.
  return answer.message as unknown as MessagesResponse;
}

/** The frames of the provider, nearly all of them as they come. By hand: each of thousands would make several turns. */
export function relayFrames(relay: Relay): AsyncIterableIterator<WrittenEvents> {
  let opening: Promise<AsyncIterator<WrittenEvents>> | null = null;
  let opened: AsyncIterator<WrittenEvents> | null = null;
  const open = async (): Promise<AsyncIterator<WrittenEvents>> => {
    const answer = await asked(relay);
    if (!('pieces' in answer)) throw new Error('A streamed answer was due');
    opened = answer.pieces[Symbol.asyncIterator]();
    return opened;
  };
  return {
    next() {
      if (opened) return opened.next();
      opening ??= open();
      return opening.then((pieces) => pieces.next());
    },
    async return() {
      await (await opening)?.return?.();
      return { done: true, value: undefined };
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

function asked({ call, model, models, spent }: Relay) {
  const { body, headers, query, signal } = call;
  const { thread: _keptByNobody, ...rest } = body;
  return models.relay(
    {
      ...{ model, spent, body: rest, beta: query.beta !== undefined },
      version: headers['anthropic-version'],
      betas: headers['anthropic-beta'],
    },
    signal,
  );
}
