/** The secrets of a test: which ones the contracts know of, and the search for each in whatever form it may stand. */
import { randomBytes } from 'node:crypto';
import contract from './contract/openapi.json' with { type: 'json' };
import settingsSchema from './contract/service.schema.json' with { type: 'json' };
import type { Json } from './test-app.ts';
import { resolved } from './test-belongings.ts';

/** A member of a request that the contract marks `writeOnly`. */
export interface SecretMember {
  readonly operationId: string;
  readonly method: string;
  readonly path: string;
  readonly place: 'body' | 'query' | 'header' | 'cookie';
  readonly name: string;
}

/** Every secret that a request may bring, wherever it stands in it. */
export function secretMembers(): readonly SecretMember[] {
  return Object.entries<Json>(contract.paths).flatMap(([path, item]) =>
    Object.entries<Json>(item)
      .filter(([method]) => /^(get|post|put|patch|delete)$/.test(method))
      .flatMap(([method, operation]) => {
        const found = (place: SecretMember['place'], name: string): SecretMember => ({
          ...{ operationId: operation.operationId, method, path },
          ...{ place, name },
        });
        const parameters = [...(item.parameters ?? []), ...(operation.parameters ?? [])].map(resolved);
        const schemas = Object.values<Json>(operation.requestBody?.content ?? {}).map(({ schema }) => schema);
        return [
          ...parameters
            .filter(({ schema }) => resolved(schema).writeOnly)
            .map((parameter) => found(parameter.in, parameter.name)),
          ...new Set(schemas.flatMap((schema) => secretsIn(schema))),
        ].map((one) => (typeof one === 'string' ? found('body', one) : one));
      }),
  );
}

/** The dotted names of what is secret in a body. */
function secretsIn(schema: Json, name = ''): string[] {
  const { writeOnly, properties = {}, additionalProperties, items, ...rest } = resolved(schema);
  const { allOf = [], anyOf = [], oneOf = [] } = rest;
  if (writeOnly) return [name];
  const below = (key: string) => (name === '' ? key : `${name}.${key}`);
  return [
    ...Object.entries<Json>(properties).flatMap(([key, child]) => secretsIn(child, below(key))),
    ...(items ? secretsIn(items, below('0')) : []),
    ...(additionalProperties ? secretsIn(additionalProperties, below('*')) : []),
    ...[...allOf, ...anyOf, ...oneOf].flatMap((child: Json) => secretsIn(child, name)),
  ];
}

/** Where `service.json` holds secrets: the keys from its root on, a star for the names that a person chooses. */
export function secretSettings(node: Json = settingsSchema, keys: readonly string[] = []): string[][] {
  if (typeof node.$ref === 'string') {
    const name = node.$ref.replace('#/definitions/', '');
    return secretSettings(Reflect.get(settingsSchema.definitions, name), keys);
  }
  if (node.writeOnly) return [[...keys]];
  return [
    ...Object.entries<Json>(node.properties ?? {}).flatMap(([key, child]) =>
      secretSettings(child, [...keys, key]),
    ),
    ...(typeof node.additionalProperties === 'object'
      ? secretSettings(node.additionalProperties, [...keys, '*'])
      : []),
    ...(node.items ? secretSettings(node.items, [...keys, '0']) : []),
  ];
}

/** A secret that was found, by what it is and never by what it says. */
export interface Finding {
  readonly what: string;
  readonly form: string;
}

export interface Secrets {
  /** Looks for this one from now on, too; answers with it. */
  add(what: string, value: string): string;
  /** What it is, as it was first called. */
  nameOf(value: string): string;
  /** A secret that nobody has had before. */
  make(what: string): string;
  readonly size: number;
  /** What of all this stands in the bytes or the text. */
  in(haystack: string | Buffer): readonly Finding[];
}

export function collectSecrets(): Secrets {
  const forms = new Map<string, { readonly what: string; readonly forms: ReadonlyMap<string, string> }>();
  const add = (what: string, value: string) => {
    // Anything shorter might stand somewhere by chance.
    if (value.length < 12) throw new Error(`${what} is too short to be looked for`);
    if (!forms.has(value)) forms.set(value, { what, forms: formsOf(value) });
    return value;
  };
  return {
    add,
    nameOf: (value) => forms.get(value)?.what ?? '',
    make: (what) => add(what, `canary${randomBytes(12).toString('hex')}`),
    get size() {
      return forms.size;
    },
    in(haystack) {
      const bytes = typeof haystack === 'string' ? Buffer.from(haystack) : haystack;
      return [...forms.values()].flatMap(({ what, forms: each }) =>
        [...each].flatMap(([form, text]) => (bytes.includes(text) ? [{ what, form }] : [])),
      );
    },
  };
}

/** As it is, and as whoever passes it on may write it. */
function formsOf(value: string): ReadonlyMap<string, string> {
  const hex = Buffer.from(value).toString('hex');
  const forms = new Map([
    ['as it is', value],
    ['in JSON', JSON.stringify(value).slice(1, -1)],
    ['percent-encoded', encodeURIComponent(value)],
    ['in hexadecimal', hex],
    ['in upper hexadecimal', hex.toUpperCase()],
  ]);
  for (const offset of [0, 1, 2]) {
    const base64 = base64Within(value, offset);
    forms.set(`in base64 (${offset})`, base64);
    forms.set(`in base64url (${offset})`, base64.replaceAll('+', '-').replaceAll('/', '_'));
  }
  return forms;
}

/** The letters that stand for it alone where `offset` bytes come before it in a group of three. */
function base64Within(value: string, offset: number): string {
  const bytes = Buffer.concat([Buffer.alloc(offset), Buffer.from(value)]);
  return bytes.toString('base64').slice(Math.ceil((offset * 8) / 6), Math.floor((bytes.length * 8) / 6));
}
