/** The access table: who may call an operation, as the contract says. */
import type { Access, Route } from '../contract/routes.ts';
import { Problem } from '../problem.ts';
import type { Caller, HttpSettings } from './ports.ts';

/** The access that holds on this server: `SERVICE_METRICS` narrows the one operation it is about. */
export function accessOf(route: Route, settings: Pick<HttpSettings, 'metrics'>): Access {
  if (route.operationId !== 'getPrometheusMetrics' || settings.metrics === 'public') return route.access;
  if (settings.metrics === 'operator') return { allow: 'operator' };
  throw new Problem('operation_not_found', 'Metrics are switched off on this server (SERVICE_METRICS=off).');
}

/**
 * Throws where the caller lacks what the operation asks for, and names it. The role that it asks for goes with the caller:
 * where the object belongs is known to the query alone.
 */
export function enforceAccess(access: Access, caller: Caller): Caller {
  if (access.allow === 'login' && caller.credential !== 'login')
    throw new Problem('login_required', 'An API key cannot do this: log in, and send the access token.');
  if (access.allow === 'operator' && !caller.operator)
    throw new Problem('role_required', 'This is for the operator of the installation only.');
  if (access.scope !== undefined && !caller.scopes.has(access.scope))
    throw new Problem('scope_required', `This API key lacks the scope ${access.scope}.`);
  return { ...caller, needs: access.role ?? 'viewer' };
}
