/** Reads what a provider setting says as if anything could be stored: a newer version may have written it. */
import type { ErrorObject } from 'ajv';
import type { Provider } from '../contract/config.ts';
import { validate } from '../contract/settings-validator.js';

export interface ReadEntry {
  readonly entry: Provider;
  /** The members that this version cannot read, which are left out of it; `''` where none can be read. */
  readonly strange: readonly string[];
}

/** Members that are not known are left out, as they are of a settings file. */
export function readEntry(text: string): ReadEntry {
  const stored: unknown = JSON.parse(text);
  if (validate({ providers: { any: stored } })) return { entry: stored as Provider, strange: [] }; // the schema says so
  const breaches = validate.errors ?? [];
  const strange = new Set(breaches.flatMap(strangeIn));
  if (strange.has('')) return { entry: {}, strange: [''] };
  const left = new Set([...strange, ...breaches.flatMap(unknownIn)]);
  const kept = Object.entries(stored as object).filter(([name]) => !left.has(name));
  return { entry: Object.fromEntries(kept), strange: [...strange] };
}

const ownPath = '/providers/any';

function strangeIn({ instancePath, keyword }: ErrorObject): string[] {
  if (instancePath === ownPath && keyword === 'additionalProperties') return [];
  return [instancePath.slice(ownPath.length).split('/')[1] ?? ''];
}

function unknownIn({ instancePath, keyword, params }: ErrorObject): string[] {
  return instancePath === ownPath && keyword === 'additionalProperties' ? [params.additionalProperty] : [];
}
