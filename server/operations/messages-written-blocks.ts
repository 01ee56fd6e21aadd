/** Puts what a model writes into the blocks of a Messages answer, one behind the other, as the clients of that API expect it. */
import type { MessagesBlock, StopReason } from '../contract/api.ts';
import { holdsLongNumber, parseExact } from '../exact-json.ts';
import type { ModelPart } from '../handler.ts';
import { Problem } from '../problem.ts';

export type Finish = Extract<ModelPart, { type: 'finish' }>;

type Said = Exclude<ModelPart, Finish | { readonly type: 'read' }>;

type BlockEvent =
  | { readonly type: 'start'; readonly index: number; readonly block: MessagesBlock }
  | { readonly type: 'delta'; readonly index: number; readonly delta: Record<string, string> }
  | { readonly type: 'stop'; readonly index: number; readonly block: MessagesBlock };

/** By these a client knows that it must not carry out what the answer ends in. */
const endsWithin: ReadonlySet<StopReason> = new Set(['max_tokens', 'refusal']);

/** One block after the other, though models may write several calls at once: what comes too early waits. */
export class BlockWriter {
  /** How many calls the answer has. */
  calls = 0;
  readonly #showsThoughts: boolean;
  #events: BlockEvent[] = [];
  #index = -1;
  #open: MessagesBlock | null = null;
  #said = '';
  /** Whether the arguments of the open call begin as an object does; null before they begin. */
  #isObject: boolean | null = null;
  /** What came of them and was not told yet. */
  #untold = '';
  /** Whether the arguments of a call are such as nobody can read. */
  #isBroken = false;
  /** What waits for the open call to be complete, in the order in which it began: a call with all that came of it. */
  #waiting: Said[][] = [];
  /** How many of them have been written. */
  #written = 0;
  readonly #waitingCalls = new Map<string, Said[]>();

  constructor(showsThoughts: boolean) {
    this.#showsThoughts = showsThoughts;
  }

  /** Throws Problem where the answer ends without saying so. */
  write(part: ModelPart): readonly BlockEvent[] {
    this.#events = [];
    if (part.type === 'read') return [];
    if (part.type === 'finish') this.#end(part);
    else if (this.#belongsLater(part)) this.#wait(part);
    else {
      this.#say(part);
      this.#goOn();
    }
    return this.#events;
  }

  /** A call is open until its arguments are complete. */
  #belongsLater(part: Said): boolean {
    if (this.#open?.type !== 'tool_use') return false;
    return !('id' in part) || part.id !== this.#open.id;
  }

  #wait(part: Said): void {
    const begun = 'id' in part ? this.#waitingCalls.get(part.id) : undefined;
    if (begun) begun.push(part);
    else {
      const parts = [part];
      this.#waiting.push(parts);
      if ('id' in part) this.#waitingCalls.set(part.id, parts);
    }
  }

  /** Each of those that wait is looked at once: a model may write thousands. */
  #goOn(): void {
    while (this.#open?.type !== 'tool_use' && this.#written < this.#waiting.length) {
      for (const part of this.#waiting[this.#written] ?? []) {
        if ('id' in part) this.#waitingCalls.delete(part.id);
        this.#say(part);
      }
      this.#written += 1;
    }
    if (this.#written < this.#waiting.length) return;
    this.#waiting = [];
    this.#written = 0;
  }

  /** A call whose arguments never became complete is closed as it is where the client is told, and so are those behind it. */
  #end({ stopReason }: Finish): void {
    const mayEndWithin = endsWithin.has(stopReason);
    do {
      if (!mayEndWithin && (this.#isBroken || this.#open?.type === 'tool_use')) throw cut();
      this.#stop();
      this.#goOn();
    } while (this.#open);
  }

  #say(part: Said): void {
    if (part.type === 'text') this.#write('text', part.text);
    else if (part.type === 'reasoning') this.#think(part);
    else if (part.type === 'tool_input') this.#call(part.id, part.name, part.json);
    else this.#called(part);
  }

  #think({ text, signature, redacted }: Extract<ModelPart, { type: 'reasoning' }>): void {
    if (!this.#showsThoughts) return;
    if (redacted !== undefined) {
      this.#stop();
      this.#start({ type: 'redacted_thinking', data: redacted });
      this.#stop();
    } else if (text !== '' || this.#open?.type !== 'thinking') this.#write('thinking', text);
    if (signature !== undefined) this.#stop({ type: 'thinking', thinking: this.#said, signature });
  }

  #write(type: 'text' | 'thinking', text: string): void {
    if (this.#open?.type !== type) {
      this.#stop();
      this.#start(type === 'text' ? { type, text: '' } : { type, thinking: '', signature: '' });
    }
    this.#said += text;
    this.#delta(type === 'text' ? { type: 'text_delta', text } : { type: 'thinking_delta', thinking: text });
  }

  #call(id: string, name: string, json: string): void {
    if (this.#open?.type !== 'tool_use') {
      this.#stop();
      this.calls += 1;
      this.#start({ type: 'tool_use', id, name, input: {} });
      this.#delta({ type: 'input_json_delta', partial_json: '' });
    }
    this.#said += json;
    this.#untold += json;
    const begin = this.#isObject === null ? json.trimStart() : '';
    if (begin !== '') this.#isObject = begin.startsWith('{');
    // Arguments that are no object would be refused when the client gives them back.
    if (this.#isObject) this.#tell();
  }

  #tell(): void {
    if (this.#untold !== '') this.#delta({ type: 'input_json_delta', partial_json: this.#untold });
    this.#untold = '';
  }

  #called({ id, name, input }: Extract<ModelPart, { type: 'tool_use' }>): void {
    this.#call(id, name, '');
    let whole = input;
    if (!isReadable(this.#said)) this.#isBroken = true;
    else if (!this.#isObject) this.#untold = Object.keys(input).length > 0 ? JSON.stringify(input) : '';
    // A whole answer holds the numbers that a streamed one does.
    else if (holdsLongNumber(this.#said)) whole = parseExact(this.#said) as typeof input; // the text of an object
    this.#stop({ type: 'tool_use', id, name, input: whole });
  }

  #start(block: MessagesBlock): void {
    this.#index += 1;
    this.#open = block;
    this.#said = '';
    this.#untold = '';
    this.#isObject = null;
    this.#events.push({ type: 'start', index: this.#index, block });
  }

  #delta(delta: Record<string, string>): void {
    this.#events.push({ type: 'delta', index: this.#index, delta });
  }

  #stop(whole?: MessagesBlock): void {
    const open = this.#open;
    if (!open) return;
    this.#open = null;
    if (open.type === 'tool_use') this.#tell();
    // Clients wait for the signature, though only the vendor's own models give one.
    if (open.type === 'thinking') this.#delta({ type: 'signature_delta', signature: whole?.signature ?? '' });
    this.#events.push({ type: 'stop', index: this.#index, block: whole ?? complete(open, this.#said) });
  }
}

function complete(open: MessagesBlock, said: string): MessagesBlock {
  if (open.type === 'text') return { ...open, text: said };
  return open.type === 'thinking' ? { ...open, thinking: said } : open;
}

/** Clients read what they can of the arguments of a call, and carry it out. */
function isReadable(json: string): boolean {
  try {
    JSON.parse(json || '{}');
    return true;
  } catch {
    return false;
  }
}

/** Half of a call must not be taken for all of it. */
function cut(): Problem {
  return new Problem(
    'provider_failed',
    'The model provider cut its answer within a tool call; try again later, or choose another model.',
  );
}
