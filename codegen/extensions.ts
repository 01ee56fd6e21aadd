/** The extensions of the contract: a name that nobody reads, misspelt or in another place, would weaken the server in silence. */
import type { Contract } from './contract.ts';

const ofOperations = [
  ...['x-access', 'x-body-limit', 'x-body-names', 'x-body-values', 'x-idempotent', 'x-open-query'],
  'x-rate-class',
];

/** Extensions of schemas, and of media types. */
const elsewhere = ['x-volatile', 'x-example-events'];

/** Members of these are names of somebody's choice, of headers for instance. */
const mapsOfNames = ['headers', 'properties', 'patternProperties', '$defs'];

/** What stands under these is data. */
const data = ['example', 'examples', 'default', 'const', 'enum'];

/** Throws for the first name with `x-` that has no meaning where it stands. */
export function requireKnownExtensions({ paths, ...rest }: Contract): void {
  requireKnown(rest, elsewhere, '');
  for (const [path, item] of Object.entries(paths)) {
    for (const [part, value] of Object.entries(item)) {
      const known = part === 'parameters' ? elsewhere : ofOperations;
      requireKnown(value, known, nameOf(value) ?? `${path} ${part}`);
    }
    requireNames(Object.keys(item), [], path);
  }
}

/** What stands below an operation is none; where it stands is told with it. */
function requireKnown(node: unknown, known: readonly string[], at: string): void {
  if (node === null || typeof node !== 'object') return;
  if (!Array.isArray(node)) requireNames(Object.keys(node), known, at);
  for (const [key, value] of Object.entries(node)) {
    if (data.includes(key) || /^x-/i.test(key)) continue;
    const place = `${at}/${key}`;
    if (!mapsOfNames.includes(key)) requireKnown(value, elsewhere, place);
    else
      for (const [name, one] of Object.entries(value ?? {})) requireKnown(one, elsewhere, `${place}/${name}`);
  }
}

function requireNames(keys: readonly string[], known: readonly string[], at: string): void {
  const strange = keys.find((key) => /^x-/i.test(key) && !known.includes(key));
  if (strange === undefined) return;
  const [nearest = ''] = [...ofOperations, ...elsewhere].toSorted(
    (one, other) => alike(other, strange) - alike(one, strange),
  );
  throw new Error(`${at}: ${strange} means nothing here; the nearest extension there is: ${nearest}`);
}

/** How many letters two names have in common at their beginnings and their ends. */
function alike(one: string, other: string): number {
  return begunAlike([...one], [...other]) + begunAlike([...one].reverse(), [...other].reverse());
}

function begunAlike(one: readonly string[], other: readonly string[]): number {
  const differs = one.findIndex((letter, at) => letter !== other[at]);
  return differs < 0 ? one.length : differs;
}

function nameOf(value: unknown): string | undefined {
  return (value as { readonly operationId?: string }).operationId; // only an operation has one
}
