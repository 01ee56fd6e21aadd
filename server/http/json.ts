/** Reads JSON from strangers: strict UTF-8, bounded in depth and number, and without names that trip code up. */
import { visit } from 'jsonc-parser';
import type { Route } from '../contract/routes.ts';
import { Problem } from '../problem.ts';

const maxDepth = 64;
const maxMembers = 5_000;
/** What every object inherits: as a member it would hide or poison what code relies on. */
const inherited = new Set([...Object.getOwnPropertyNames(Object.prototype), 'prototype']);

/** The value that these bytes are, as the operation takes them, or a Problem that says where they are not one. */
export function readJson(
  bytes: Uint8Array,
  { bodyValues, bodyNames }: Pick<Route, 'bodyValues' | 'bodyNames'>,
): unknown {
  const text = decode(bytes);
  refuseExcess(text, bodyValues);
  const value = parseText(text);
  refuseUnsafe(value, bodyNames);
  return value;
}

function decode(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (error) {
    throw new Problem('invalid_encoding', 'The body is not UTF-8; encode it so.', { cause: error });
  }
}

/** Counts before parsing, so that what is absurd costs one pass over the text. */
function refuseExcess(text: string, mostValues: number): void {
  const members: number[] = [];
  let values = 1;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === 0x22) at = endOfString(text, at);
    else if (code === 0x7b || code === 0x5b) {
      values += 1;
      if (members.push(code === 0x7b ? 1 : Number.NEGATIVE_INFINITY) > maxDepth)
        throw excess(`The body is nested deeper than ${maxDepth} levels.`);
    } else if (code === 0x7d || code === 0x5d) members.pop();
    else if (code === 0x2c) {
      values += 1;
      const count = (members.at(-1) ?? 0) + 1;
      members[members.length - 1] = count;
      if (count > maxMembers) throw excess(`An object of the body has more than ${maxMembers} members.`);
    }
    if (values > mostValues) throw excess(`The body holds more than ${mostValues} values.`);
  }
}

/** Jumps over a string: long texts are most of what bodies hold. */
function endOfString(text: string, start: number): number {
  for (let at = text.indexOf('"', start + 1); at >= 0; at = text.indexOf('"', at + 1)) {
    let backslashes = 0;
    while (text.charCodeAt(at - 1 - backslashes) === 0x5c) backslashes += 1;
    if (backslashes % 2 === 0) return at;
  }
  return text.length;
}

function excess(detail: string): Problem {
  return new Problem('invalid_request', detail, {
    errors: [{ in: 'body', pointer: '', message: detail, code: 'limit' }],
  });
}

function parseText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (text.includes('\0'))
      throw new Problem('invalid_encoding', 'The body holds a NUL byte; send it in UTF-8.', { cause: error });
    throw new Problem('invalid_json', `The body is not JSON${placeOfError(text)}.`, { cause: error });
  }
}

/** The engine does not always tell where it stopped; the tolerant parser does. */
function placeOfError(text: string): string {
  if (text.trim() === '') return ': it is empty';
  const offset = offsetOfError(text);
  if (offset === null) return '';
  let [line, start] = [1, 0];
  for (let at = 0; at < offset; at += 1) if (text.charCodeAt(at) === 0x0a) [line, start] = [line + 1, at + 1];
  return `: line ${line}, column ${offset - start + 1} (offset ${offset})`;
}

/** It reads on behind what is wrong, and would collect millions of faults: the first one ends it. */
function offsetOfError(text: string): number | null {
  let found: number | null = null;
  const enough = new Error('The first fault is enough.');
  const onError = (_code: number, offset: number): never => {
    found = offset;
    throw enough;
  };
  try {
    visit(text, { onError }, { disallowComments: true });
  } catch (error) {
    if (error !== enough) throw error;
  }
  return found;
}

/** Walks what was parsed; its depth and size are bounded by now. `free` are the ways from here to where any name is data. */
function refuseUnsafe(value: unknown, free: readonly Way[]): void {
  if (typeof value === 'string') refuseBrokenText(value);
  else if (Array.isArray(value)) {
    const inner = within(free, '*');
    for (const one of value) refuseUnsafe(one, inner);
  } else if (typeof value === 'object' && value !== null)
    for (const [name, member] of Object.entries(value)) {
      refuseBrokenText(name);
      if (inherited.has(name) && !free.some(isArrived)) throw refusedName(name);
      refuseUnsafe(member, within(free, name));
    }
}

/** Names of members, `*` for any of them and for each item of a list. */
type Way = readonly string[];

function isArrived(way: Way): boolean {
  return way.length === 0;
}

function within(free: readonly Way[], name: string): readonly Way[] {
  if (free.length === 0) return free;
  return free.filter((way) => isArrived(way) || way[0] === '*' || way[0] === name).map((way) => way.slice(1));
}

function refuseBrokenText(text: string): void {
  if (text.includes('\0'))
    throw new Problem('invalid_encoding', 'A text of the body holds a NUL character; leave it out.');
  if (!text.isWellFormed())
    throw new Problem('invalid_encoding', 'A text of the body holds half a surrogate pair.');
}

function refusedName(name: string): Problem {
  return new Problem('invalid_request', `No member may be called ${name}.`, {
    errors: [{ in: 'body', pointer: '', message: `no member may be called ${name}`, code: 'name' }],
  });
}
