/** Where in a value an id may stand, as its schema tells: in lists, in members of members, and in each of several choices. */
import type { AnySchemaObject } from 'ajv';

export interface IdPlace {
  /** The names that lead there; `inList` stands for whatever member of a list. */
  readonly steps: readonly string[];
  /** Of which kind it is, by what its ids begin with. */
  readonly prefix: string;
}

const inList = '[]';

/** `resolve` gives what a reference of the contract stands for. */
export function idPlacesIn(
  schema: AnySchemaObject,
  resolve: (schema: AnySchemaObject) => AnySchemaObject,
): IdPlace[] {
  const places = placesBelow(schema, resolve, [], []);
  return [...new Map(places.map((place) => [JSON.stringify(place), place])).values()];
}

function placesBelow(
  given: AnySchemaObject,
  resolve: (schema: AnySchemaObject) => AnySchemaObject,
  steps: readonly string[],
  above: readonly string[],
): IdPlace[] {
  const schema = resolve(given);
  // A schema that leads back to itself tells nothing new further down.
  const text = JSON.stringify(schema);
  if (above.includes(text)) return [];
  const below = (one: AnySchemaObject, ...further: string[]) =>
    placesBelow(one, resolve, [...steps, ...further], [...above, text]);
  const { allOf = [], anyOf = [], oneOf = [], prefixItems = [], items, additionalProperties } = schema;
  return [
    ...prefixesOf(schema).map((prefix) => ({ steps, prefix })),
    ...[...allOf, ...anyOf, ...oneOf].flatMap((one) => below(one)),
    ...[...prefixItems, ...(items ? [items] : [])].flatMap((one) => below(one, inList)),
    ...Object.entries<AnySchemaObject>(schema.properties ?? {}).flatMap(([name, one]) => below(one, name)),
    ...(typeof additionalProperties === 'object' ? below(additionalProperties, 'any') : []),
  ];
}

/** The prefixes of the ids that a schema itself describes. */
function prefixesOf({ pattern = '' }: AnySchemaObject): string[] {
  const prefixes = /^\^\(?([a-z|]+)\)?_\[/.exec(pattern)?.[1]?.split('|') ?? [];
  if (prefixes.length === 0 && pattern.includes('{25}')) throw new Error(`of which kind is ${pattern}?`);
  return prefixes;
}

/** The same with this id in a place of it; in a list beside its other members, and made like the first of them. */
export function withIdIn(value: unknown, [step, ...further]: readonly string[], id: string): unknown {
  if (step === undefined) return id;
  if (step === inList) return withMember(Array.isArray(value) ? value : [], further, id);
  // Whatever has members is an object, and what is not there yet becomes one.
  const members = (value ?? {}) as Readonly<Record<string, unknown>>;
  return { ...members, [step]: withIdIn(members[step], further, id) };
}

/** Lists of ids hold none twice. */
function withMember(list: readonly unknown[], steps: readonly string[], id: string): unknown[] {
  const others = list.filter((one) => !JSON.stringify(one).includes(id));
  return [...others, withIdIn(list[0], steps, id)];
}
