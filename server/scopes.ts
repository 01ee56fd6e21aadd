/** All that a login may do, and an API key at most. */
import type { Scope } from './contract/api.ts';

/**
 * A record, so that a scope that the contract gains does not compile until it stands here. The migration that comes with
 * it gives it to the keys that had all before: with these an operator who knows no password runs the installation.
 */
const everyScope: Readonly<Record<Scope, true>> = {
  query: true,
  messages: true,
  'sessions:read': true,
  'sessions:write': true,
  'agents:read': true,
  'agents:write': true,
  'providers:read': true,
  'providers:write': true,
  'mcp:read': true,
  'mcp:write': true,
  'files:read': true,
  'files:write': true,
  'corpora:read': true,
  'corpora:write': true,
  'memories:read': true,
  'memories:write': true,
  'jobs:read': true,
  'jobs:write': true,
  'skills:read': true,
  'skills:write': true,
  'organizations:read': true,
  'organizations:write': true,
  'account:read': true,
  'account:write': true,
  'users:read': true,
  'users:write': true,
  'keys:read': true,
  'keys:write': true,
  'workspaces:read': true,
  'workspaces:write': true,
  'metrics:read': true,
  'quotas:read': true,
  'quotas:write': true,
  'audit:read': true,
};

// The keys of a record that is typed by Scope are scopes; Object.keys cannot say so.
export const allScopes: ReadonlySet<Scope> = new Set(Object.keys(everyScope) as Scope[]);

/** Whether they are all that there are. */
export function isEveryScope(scopes: Iterable<Scope>): boolean {
  const given = new Set(scopes);
  return [...allScopes].every((scope) => given.has(scope));
}
