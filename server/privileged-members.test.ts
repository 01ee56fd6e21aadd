/** Nobody raises themselves by a member that a request was not meant to have, on any operation of the contract. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Route, routes } from './contract/routes.ts';
import { type Account, type Json, type TestApp, testApp } from './test-app.ts';
import { exampleOf, operationAt, resolved } from './test-belongings.ts';

let app: TestApp;
let ada: Account;
beforeAll(async () => {
  app = await testApp();
  ada = await app.register('ada');
});
afterAll(() => app.close());

/** What says whose something is, and what somebody may do; each with a value of the right form. */
const members: Readonly<Record<string, unknown>> = {
  id: 'usr_01k9w6r3h2e7xv5q0c8m4b1tza',
  user_id: 'usr_01k9w6r3h2e7xv5q0c8m4b1tza',
  owner_id: 'usr_01k9w6r3h2e7xv5q0c8m4b1tza',
  created_by: 'usr_01k9w6r3h2e7xv5q0c8m4b1tza',
  organization_id: 'org_01k9w6r3h2e7xv5q0c8m4b1tza',
  operator: true,
  is_operator: true,
  role: 'owner',
  memberships: [{ role: 'owner' }],
  status: 'active',
  created_at: '2026-11-21T09:00:00.000Z',
};

/** Under /v1 unknown members are ignored, as its clients expect. */
const withBodies = routes.filter(
  ({ path, method }) => path.startsWith('/api/v1') && bodyOf({ path, method }),
);

function bodyOf({ path, method }: Pick<Route, 'path' | 'method'>): Json {
  const [media] = Object.values<Json>(operationAt(path, method).requestBody?.content ?? {});
  // Bytes have no members.
  return media?.schema.type === 'string' ? undefined : media?.schema;
}

test.each(withBodies.map((route) => [route.operationId, route] as const))(
  '%s refuses each member that would give rights, by its name',
  async (_, route) => {
    const { method, access } = route;
    const known = knownTo(route);
    const token = access.allow === 'operator' ? app.operatorKey : ada.token;
    for (const [name, value] of Object.entries(members).filter(([member]) => !known.includes(member))) {
      const { body, headers } = exampleOf(route);
      const answer = await app.request(method.toUpperCase(), withExampleIds(route), {
        ...(access.allow !== 'public' && { token }),
        ...sent({ ...body, [name]: value }, headers),
      });
      expect([name, answer.status, answer.body.code]).toEqual([name, 400, 'invalid_request']);
      expect(answer.body.errors).toContainEqual(expect.objectContaining({ pointer: `/${name}` }));
    }
  },
);

test('there are such operations, and few of these members mean something to any of them', () => {
  expect(withBodies.length).toBeGreaterThan(40);
  const meant = withBodies.flatMap((route) =>
    knownTo(route)
      .filter((name) => name in members)
      .map((name) => `${route.operationId} ${name}`),
  );
  // Each has its tests beside its family: who may give which role, and where.
  expect(meant.sort()).toEqual([
    'createGroup organization_id',
    'createInvitation role',
    'createMcpServer organization_id',
    'createProviderSetting organization_id',
    'createUser organization_id',
    'createUser role',
    'createWorkspace organization_id',
    'putOrgMember role',
    'putWorkspaceMember role',
    'updateUser organization_id',
    'updateUser role',
    'updateUser status',
  ]);
});

/** The body in the form that the operation takes. */
function sent(body: Record<string, unknown>, headers: Record<string, string> = {}) {
  if (headers['content-type'] !== 'multipart/form-data')
    return { body, headers: { 'if-match': '*', ...headers } };
  const part = (name: string, value: string) =>
    `--x\r\nContent-Disposition: form-data; name=${name}\r\n\r\n${value}\r\n`;
  const fields = Object.entries(body).filter(([name]) => name !== 'file');
  const texts = fields.map(([name, value]) =>
    part(`"${name}"`, typeof value === 'string' ? value : JSON.stringify(value)),
  );
  return {
    body: `${texts.join('')}${part('"file"; filename="a"', 'a')}--x--\r\n`,
    headers: { 'content-type': 'multipart/form-data; boundary=x' },
  };
}

/** The members that the operation takes, in whichever of its forms. */
function knownTo(route: Route): string[] {
  const { properties = {}, oneOf = [] } = resolved(bodyOf(route));
  return [properties, ...oneOf.map((form: Json) => resolved(form).properties)].flatMap(Object.keys);
}

/** A path whose ids could be those of something; nothing is looked for before the body is judged. */
function withExampleIds({ path, method }: Route): string {
  const parameters = operationAt(path, method).parameters.map(resolved);
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const schema = resolved(parameters.find((one: Json) => one.name === name)?.schema);
    return schema.examples?.[0] ?? schema.enum?.[0] ?? 'x';
  });
}
