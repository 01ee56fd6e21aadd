/** Tool calls on their way to a provider: what models call them by is refused by others, and by their own servers too. */
import { createHash } from 'node:crypto';
import type { ModelMessage, ModelRequest } from '../models/model.ts';
import type { ProviderType } from './provider-definition.ts';

/** Who is told of the calls. */
interface Asked {
  /** The full name of the model. */
  readonly name: string;
  readonly type: ProviderType;
  readonly tools: ModelRequest['tools'];
  /** Whether ids of nine letters and digits are taken, and no others. */
  readonly wantsNine: boolean;
}

/** The letters that all of them take, in names as in ids. */
const strange = /[^a-zA-Z0-9_-]/;

/** As long as OpenAI takes them. */
const longest = { name: 64, id: 40 };

/** Such ids as Mistral takes: https://mistralai.github.io/mistral-common/usage/tools/#tool-calling-and-messages. */
const nine = /^[a-zA-Z0-9]{9}$/;

/** They refuse a whole request for the longer name of one tool, which others take: clients of Anthropic have such. */
const strict: ReadonlySet<ProviderType> = new Set(['openai', 'azure']);

/** Names and ids as one request has them, whose messages are gone through in their order: what is stored stays as it is. */
export class SentCalls {
  readonly #asked: Asked;
  /** What the tools of the request are called there. */
  readonly #offered: ReadonlyMap<string, string>;
  readonly #tools: ReadonlyMap<string, string>;
  /** What the ids of the newest answer have become. */
  #ids: ReadonlyMap<string, string> = new Map();
  readonly #used = new Set<string>();

  constructor(asked: Asked) {
    this.#asked = asked;
    const sent = (name: string) => (strict.has(asked.type) ? taken(name, longest.name) : name);
    this.#offered = new Map(asked.tools.map(({ name }) => [name, sent(name)]));
    this.#tools = new Map([...this.#offered].map(([name, called]) => [called, name]));
  }

  /** The results that follow are those of this answer's calls. */
  readAnswer(answer: ModelMessage): void {
    const calls = answer.parts.filter((part) => part.type === 'tool_use');
    const isOwn = this.#isOwn(answer);
    this.#ids = new Map(calls.map(({ id }) => [id, this.#newId(id, isOwn)]));
  }

  idOf(id: string): string {
    return this.#ids.get(id) ?? this.#takenId(id);
  }

  /** That of a tool which the request offers is as good as the offer. */
  nameOf(name: string): string {
    return this.#offered.get(name) ?? taken(name, longest.name);
  }

  /** Which tool the model calls by that name. */
  toolOf(called: string): string {
    return this.#tools.get(called) ?? called;
  }

  /**
   * A model takes the ids that it gave, however strange, and may want them back: Kimi counts its calls in them, and
   * gateways put signatures there. Who imitates OpenAI is thought to know those of which nobody says whose they are.
   */
  #isOwn({ model }: ModelMessage): boolean {
    return model === this.#asked.name || (model === undefined && this.#asked.type === 'openai-compat');
  }

  /** Some models count anew with each answer, where Anthropic wants no id twice. */
  #newId(id: string, isOwn: boolean): string {
    const { wantsNine } = this.#asked;
    const keeps = isOwn && (!wantsNine || nine.test(id));
    const first = keeps && id !== '' ? id : this.#takenId(id);
    let sent = first;
    // Nine characters hold no more than the beginning of a hash: two of many ids may come to the same.
    for (let others = this.#used.size; !keeps && this.#used.has(sent); others += 1)
      sent = wantsNine ? nineOf(`${others} ${id}`) : marked(first, longest.id, `${others} ${id}`);
    this.#used.add(sent);
    return sent;
  }

  #takenId(id: string): string {
    if (!this.#asked.wantsNine) return taken(id, longest.id);
    return nine.test(id) ? id : nineOf(id);
  }
}

/** One that has strange letters without them; two that differ still do. */
export function plainId(id: string): string {
  return id === '' || strange.test(id) ? taken(id, longest.id) : id;
}

function taken(text: string, most: number): string {
  const plain = text.replaceAll(new RegExp(strange, 'g'), '_');
  return plain === text && text !== '' && text.length <= most ? text : marked(plain, most, text);
}

/** What was different stays so. */
function marked(plain: string, most: number, whole: string): string {
  const mark = hashOf(whole).slice(0, 8);
  return `${plain.slice(0, most - mark.length - 1)}_${mark}`;
}

function nineOf(id: string): string {
  return hashOf(id).slice(0, 9);
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
