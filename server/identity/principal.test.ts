/** Which changes of somebody's rights end what they have open, and where an API key may be used. */
import { describe, expect, test } from 'vitest';
import { isAllowedFrom } from './address-ranges.ts';
import { keepsItsRights, type Principal } from './principal.ts';

const membership = (role: 'owner' | 'admin' | 'member' | 'viewer', organizationId = 'org_1') => ({
  organizationId,
  organizationName: 'x',
  role,
  defaultWorkspaceId: `ws_${organizationId}`,
});
const key = {
  ...{ ipAllow: [], permissionRules: [], rateLimit: null, hasEnd: false, hasQuota: false },
  ...{ secretNumber: 2, oldestSecret: 2 },
};
const origin = { requestId: 'req', address: '192.0.2.7', credential: null };
const workspace = (role: 'admin' | 'member' | 'viewer', organizationId = 'org_1') => ({
  id: 'ws_2',
  organizationId,
  role,
});

const before: Principal = {
  userId: 'usr_1',
  email: 'ada@example.com',
  operator: false,
  memberships: [membership('member')],
  workspaces: [workspace('member')],
  organizationIds: ['org_1'],
  credential: 'api_key',
  credentialId: 'key_1',
  scopes: new Set(['query', 'sessions:read']),
  key,
  origin,
};

describe('a stream goes on', () => {
  test.each<[string, Partial<Principal>]>([
    ['where nothing has changed', {}],
    ['with a higher role', { memberships: [membership('owner')] }],
    [
      'in another organization besides',
      { memberships: [membership('member'), membership('viewer', 'org_2')] },
    ],
    ['with a higher role in the workspace', { workspaces: [workspace('admin')] }],
    [
      'as an admin, whom nobody need give the workspace',
      { memberships: [membership('admin')], workspaces: [] },
    ],
    ['with another scope besides', { scopes: new Set(['query', 'sessions:read', 'messages']) }],
    ['from an address that is allowed', { key: { ...key, ipAllow: ['192.0.2.0/24'] } }],
    ['with other rules and another rate', { key: { ...key, rateLimit: 1 } }],
    ['with an old secret in its grace', { key: { ...key, secretNumber: 3, oldestSecret: 2 } }],
  ])('%s', (_, now) => {
    expect(keepsItsRights(before, { ...before, ...now })).toBe(true);
  });
});

describe('a stream ends', () => {
  test.each<[string, Partial<Principal>]>([
    ['with a lower role', { memberships: [membership('viewer')] }],
    ['outside of the organization', { memberships: [], workspaces: [] }],
    ['without the workspace', { workspaces: [] }],
    ['with a lower role in the workspace', { workspaces: [workspace('viewer')] }],
    ['when the workspace has moved', { workspaces: [workspace('member', 'org_2')], memberships: [] }],
    ['without a scope', { scopes: new Set(['query']) }],
    ['where the address is not allowed any more', { key: { ...key, ipAllow: ['198.51.100.0/24'] } }],
    ['with an old secret whose grace is over', { key: { ...key, secretNumber: 3, oldestSecret: 3 } }],
    ['bound to a workspace', { memberships: [], workspaces: [workspace('member')], workspaceId: 'ws_2' }],
  ])('%s', (_, now) => {
    expect(keepsItsRights(before, { ...before, ...now })).toBe(false);
  });

  test('of an operator who is none any more', () => {
    expect(keepsItsRights({ ...before, operator: true }, before)).toBe(false);
  });
});

test.each([
  [[], null, true],
  [['192.0.2.0/24'], '192.0.2.255', true],
  [['192.0.2.0/24'], '192.0.3.0', false],
  [['192.0.2.1'], '192.0.2.1', true],
  [['192.0.2.1'], '192.0.2.10', false],
  [['2001:db8::/32'], '2001:db8:ffff::1', true],
  [['2001:db8::/32'], '2001:db9::1', false],
  [['0.0.0.0/0'], '::1', false],
  [['0.0.0.0/0', '::/0'], '::1', true],
  [['192.0.2.0/24'], null, false],
  [['192.0.2.0/24'], 'not an address', false],
])('of the ranges %j the address %s: %s', (ranges, address, allowed) => {
  expect(isAllowedFrom(ranges, address)).toBe(allowed);
});
