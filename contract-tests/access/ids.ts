/** Ids in whatever text they stand: replaced by such as nobody was ever given, or by those of another place. */
import type { Ids } from './things.ts';

const pattern = /\b([a-z]+)_[0-7][0-9a-hjkmnp-tv-z]{25}\b/g;

/** The same with ids that were never made. */
export function neverMade<Value>(value: Value): Value {
  return replaced(value, (_id, prefix) => `${prefix}_01k9w6r3h2e7xv5q0c8m4b1tzz`);
}

/** The same with these ids wherever one with their prefix stands, as in the examples of the contract. */
export function withIds<Value>(value: Value, ids: Ids): Value {
  const byPrefix = new Map(Object.values(ids).map((id) => [prefixOf(id), id]));
  return replaced(value, (id, prefix) => byPrefix.get(prefix) ?? id);
}

/** The same with one of its ids, counted from 0, replaced. */
export function withIdAt<Value>(value: Value, at: number, id: string): Value {
  let count = -1;
  return replaced(value, (own) => {
    count += 1;
    return count === at ? id : own;
  });
}

export function idsIn(value: unknown): string[] {
  return JSON.stringify(value)?.match(pattern) ?? [];
}

export function prefixOf(id: string): string {
  return id.slice(0, id.lastIndexOf('_'));
}

function replaced<Value>(value: Value, by: (id: string, prefix: string) => string): Value {
  // Texts are replaced by texts, so it is still a Value; JSON cannot say so.
  return value === undefined ? value : (JSON.parse(JSON.stringify(value).replaceAll(pattern, by)) as Value);
}
