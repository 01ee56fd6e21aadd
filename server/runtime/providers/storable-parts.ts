/** What a model writes as a session can keep it, and an import takes it back. */
import { newId } from '../../ids.ts';
import { fits, storableText, storableValue } from '../../storable.ts';
import type { ModelPart } from '../models/model.ts';
import { mostCalls } from './answer-bounds.ts';
import { tooLong } from './provider-failures.ts';

type Written = Extract<ModelPart, { type: 'text' | 'reasoning' }>;
type OfCall = Extract<ModelPart, { type: 'tool_input' | 'tool_use' }>;

/** Cleans an answer part by part, so that what is streamed of it is what is stored. */
export class StorableParts {
  /** Half of a character whose other half comes with the next piece, and what it is of. */
  #half: Written | null = null;
  readonly #ids = new CallIds();

  take(part: ModelPart): readonly ModelPart[] {
    if (part.type === 'text' || part.type === 'reasoning') return this.#written(part);
    if (part.type === 'finish' || part.type === 'read') return [...this.#rest(), part];
    const named = { id: this.#ids.of(part), name: storableText(part.name) };
    if (part.type === 'tool_input') return [...this.#rest(), { ...part, ...named }];
    return [...this.#rest(), { ...part, ...named, input: storableInput(part.input) }];
  }

  #written(part: Written): readonly ModelPart[] {
    const before = this.#half?.type === part.type ? [] : this.#rest();
    const text = (this.#half?.text ?? '') + part.text;
    this.#half = null;
    if (!endsInHalf(text) || !isBare(part)) return [...before, { ...part, text: storableText(text) }];
    this.#half = { type: part.type, text: text.slice(-1) };
    const whole = text.slice(0, -1);
    return whole === '' ? before : [...before, { ...part, text: storableText(whole) }];
  }

  /** The other half did not come. */
  #rest(): readonly ModelPart[] {
    const half = this.#half;
    this.#half = null;
    return half ? [{ ...half, text: storableText(half.text) }] : [];
  }
}

/** Servers that imitate others give an id twice, or none; by it a result is known to be its call's. */
class CallIds {
  readonly #given = new Set<string>();
  /** Those of calls whose arguments are still being written, by what the provider calls them. */
  readonly #open = new Map<string, string>();

  of({ type, id }: OfCall): string {
    const given = this.#open.get(id) ?? this.#fresh(storableText(id));
    if (type === 'tool_input') this.#open.set(id, given);
    else this.#open.delete(id);
    return given;
  }

  #fresh(id: string): string {
    const given = id === '' || this.#given.has(id) ? newId('toolCall') : id;
    this.#given.add(given);
    if (this.#given.size > mostCalls) throw tooLong();
    return given;
  }
}

function endsInHalf(text: string): boolean {
  const last = text.charCodeAt(text.length - 1);
  return last >= 0xd800 && last <= 0xdbff;
}

/** Behind what its vendor has signed or sealed nothing of the thought comes any more. */
function isBare(part: Written): boolean {
  return part.type === 'text' || (part.signature === undefined && part.redacted === undefined);
}

/** Arguments that no session could keep are read as none, as those that are no object: the tool says what is missing. */
function storableInput(input: Record<string, unknown>): Record<string, unknown> {
  return fits(input) ? (storableValue(input) as Record<string, unknown>) : {};
}
