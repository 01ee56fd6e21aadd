/** What holds for all of a workspace, for every session in it. */
import type { PermissionMode, PermissionRule } from '../contract/api.ts';

export interface WorkspaceTerms {
  /** Asked where neither the query, nor the session, nor the profile names one. */
  readonly model: string | null;
  /** Of queries that name none. */
  readonly permissionMode: PermissionMode | null;
  /** Count beside those of the session. */
  readonly permissionRules: readonly PermissionRule[];
}

export const noTerms: WorkspaceTerms = { model: null, permissionMode: null, permissionRules: [] };
