/** Reads the query of a request strictly: each parameter once, declared, not empty, in valid UTF-8. */
import type { FieldError } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import type { DeclaredParameter } from './contract-document.ts';

/** What the query holds that the contract can look at, and what it must not hold. */
export interface ReadQuery {
  readonly values: ReadonlyMap<string, string>;
  readonly errors: readonly FieldError[];
}

/** `tolerant` lets what is undeclared pass unseen, and what may be empty: vendors' clients send what they like. */
export function readQuery(
  search: string,
  declared: readonly DeclaredParameter[],
  tolerant: boolean,
): ReadQuery {
  const known = new Map(declared.filter((one) => one.in === 'query').map((one) => [one.name, one]));
  const values = new Map<string, string>();
  const errors: FieldError[] = [];
  const wrong = new Set<string>();
  for (const [name, value] of pairsOf(search)) {
    const parameter = known.get(name);
    if (tolerant && (!parameter || (value === '' && mayBeEmpty(parameter)))) continue;
    const fault = faultOf(parameter, value, values.has(name));
    if (fault) errors.push({ in: 'query', name: shorten(name), ...fault });
    if (fault) wrong.add(name);
    values.set(name, value);
  }
  for (const name of wrong) values.delete(name);
  return { values, errors };
}

/** The query as any parser reads it back, whatever the caller left unescaped. */
export function writeQuery(values: ReadonlyMap<string, string>): string {
  return [...values].map(([name, value]) => `${escapeAll(name)}=${escapeAll(value)}`).join('&');
}

/** Keeps what a stranger wrote from filling an answer. */
export function shorten(text: string): string {
  return text.length > 100 ? `${text.slice(0, 100).toWellFormed()}…` : text;
}

function mayBeEmpty({ schema }: DeclaredParameter): boolean {
  return schema.type === 'string' && schema.minLength === undefined;
}

function faultOf(
  parameter: DeclaredParameter | undefined,
  value: string,
  repeated: boolean,
): Pick<FieldError, 'message' | 'code'> | null {
  if (!parameter) return { message: 'is not a parameter of this operation', code: 'unknown' };
  if (repeated) return { message: 'must be given once', code: 'repeated' };
  if (value === '') return { message: 'must not be empty', code: 'empty' };
  // The validator would read 1e1, 0x10 and 5.0 as whole numbers.
  if (parameter.schema.type === 'integer' && !/^-?\d{1,16}$/.test(value))
    return { message: 'must be integer', code: 'type' };
  return null;
}

function pairsOf(search: string): (readonly [string, string])[] {
  return search
    .split('&')
    .filter((pair) => pair !== '')
    .map((pair) => {
      const at = pair.indexOf('=');
      return at < 0 ? [decode(pair), ''] : [decode(pair.slice(0, at)), decode(pair.slice(at + 1))];
    });
}

function decode(text: string): string {
  const decoded = percentDecode(text.replaceAll('+', ' '));
  if (decoded !== null && !decoded.includes('\0')) return decoded;
  throw new Problem('invalid_encoding', 'The query holds a broken percent-encoding, or a NUL.');
}

function percentDecode(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch (error) {
    if (error instanceof URIError) return null;
    throw error;
  }
}

function escapeAll(text: string): string {
  return encodeURIComponent(text.toWellFormed()).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}
