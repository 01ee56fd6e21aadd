/** A word of the contract that no generator would read is an error, not a weaker server. */
import { expect, test } from 'vitest';
import { type Contract, operationsOf } from './contract.ts';
import { requireKnownExtensions } from './extensions.ts';

/** As much of a contract as is looked at. */
function contractWith(
  operation: object,
  { schema = {}, item = {} }: { schema?: object; item?: object } = {},
) {
  const known = { operationId: 'logIn', 'x-access': { allow: 'public' }, 'x-rate-class': 'login' };
  const headers = { 'x-should-retry': { schema: { type: 'string' } } };
  return {
    paths: {
      '/login': {
        parameters: [],
        post: { ...known, responses: { 200: { headers } }, ...operation },
        ...item,
      },
    },
    components: { schemas: { Used: { properties: { at: { 'x-volatile': true, ...schema } } } } },
  } as unknown as Contract; // the rest is nothing to these functions
}

test('known extensions, names of headers and data of examples are let pass', () => {
  const content = { 'application/json': { examples: { a: { value: { 'x-own': 1 } } } } };
  expect(() => requireKnownExtensions(contractWith({ requestBody: { content } }))).not.toThrow();
});

test.each([
  ['x-rate-clas', 'x-rate-class'],
  ['x-open-querry', 'x-open-query'],
  ['x-bodyvalues', 'x-body-values'],
  ['x-body-name', 'x-body-names'],
  ['X-access', 'x-access'],
])('an operation with %s is told of %s', (misspelt, meant) => {
  const contract = contractWith({ [misspelt]: 1 });
  expect(() => requireKnownExtensions(contract)).toThrow(`logIn: ${misspelt} means nothing here`);
  expect(() => requireKnownExtensions(contract)).toThrow(meant);
});

test('neither a misspelt extension of a schema, nor one of operations there, is passed over', () => {
  for (const name of ['x-volatil', 'x-rate-class'])
    expect(() => requireKnownExtensions(contractWith({}, { schema: { [name]: true } }))).toThrow(
      `/components/schemas/properties/at: ${name}`.replace('schemas/', 'schemas/Used/'),
    );
  expect(() => requireKnownExtensions(contractWith({}, { item: { 'x-rate-class': 'login' } }))).toThrow(
    '/login: x-rate-class',
  );
});

test.each(['head', 'options', 'trace', 'servers'])(
  'a path with %s is refused: no route would come of it',
  (method) => {
    const contract = contractWith({}, { item: { [method]: { operationId: 'other' } } });
    expect(() => operationsOf(contract)).toThrow(`/login: ${method} is none of`);
  },
);
