/** The settings files in the folders of workspaces: what they say, who trusts them, and how they are changed. */
import type { WorkspaceTrust, WorkspaceTrustRequest } from '../contract/api.ts';
import type { ClientConfig } from '../contract/config.ts';
import { changeSettings, type SettingsChange } from './changed.ts';
import { settingsForRuns } from './for-runs.ts';
import { type Outcome, openSettings, type TrustedFile, type WorkspaceSettingsParts } from './opened.ts';
import { type ConfigWithTag, configOf, type SettingsView } from './shown.ts';
import { addTrust, removeTrust, trustOf } from './trusted.ts';

export interface WorkspaceSettings {
  /** The merged settings, and what tells these from any others. Throws `workspace_unavailable`. */
  read(workspaceId: string, view: SettingsView): Promise<ConfigWithTag>;
  /**
   * Merges a patch into the workspace file. `trusted` are the files that are trusted. Throws `precondition_failed`,
   * `restricted_section` or `invalid_request`, and changes nothing then.
   */
  patch(
    workspaceId: string,
    view: SettingsView,
    given: SettingsChange,
    trusted: readonly TrustedFile[],
  ): Promise<Outcome<ConfigWithTag>>;
  trust(workspaceId: string): Promise<WorkspaceTrust>;
  /** Trusts the files as they were looked at. Throws `trust_conflict` where one of them is another by now. */
  addTrust(
    workspaceId: string,
    files: WorkspaceTrustRequest['files'],
    trusted: readonly TrustedFile[],
  ): Promise<Outcome<WorkspaceTrust>>;
  removeTrust(workspaceId: string, trusted: readonly TrustedFile[]): Promise<Outcome<null>>;
  /** The settings of the installation as they count for runs in the workspace. */
  forRuns(workspaceId: string, installation: ClientConfig): Promise<ClientConfig>;
}

/** More than one person's trust counts nowhere at once: it is that of the command's person, or of the operator. */
export function createWorkspaceSettings(parts: WorkspaceSettingsParts): WorkspaceSettings {
  return {
    read: async (workspaceId, view) => configOf(workspaceId, await openSettings(parts, workspaceId), view),
    patch: (workspaceId, view, given, trusted) => changeSettings(parts, workspaceId, view, given, trusted),
    trust: async (workspaceId) => trustOf(workspaceId, await openSettings(parts, workspaceId)),
    addTrust: (workspaceId, files, trusted) => addTrust(parts, workspaceId, files, trusted),
    removeTrust: (workspaceId, trusted) => removeTrust(parts, workspaceId, trusted),
    forRuns: (workspaceId, installation) => settingsForRuns(parts, workspaceId, installation),
  };
}
