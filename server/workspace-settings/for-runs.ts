/** The settings of a workspace as they count for its runs. */
import { lstat } from 'node:fs/promises';
import { loadUsable, type SettingsPlaces } from '../config/config.ts';
import type { ClientConfig } from '../contract/config.ts';
import { trustIn, type WorkspaceSettingsParts } from './opened.ts';

export async function settingsForRuns(
  parts: WorkspaceSettingsParts,
  workspaceId: string,
  installation: ClientConfig,
): Promise<ClientConfig> {
  // The settings of the command are those of its project already.
  if (parts.own) return installation;
  const places = await parts.placesOf(workspaceId);
  if (!(await hasFiles(places))) return installation;
  const trust = await trustIn(parts, places, workspaceId);
  return countingForRuns(installation, (await loadUsable(places, trust)).loaded.config);
}

async function hasFiles({ projectFiles, workspaceFile }: SettingsPlaces): Promise<boolean> {
  const files = [...projectFiles, ...(workspaceFile === null ? [] : [workspaceFile])];
  const there = await Promise.all(
    files.map((file) =>
      lstat(file).then(
        () => true,
        () => false,
      ),
    ),
  );
  return there.includes(true);
}

/** Providers, servers and what else the installation keeps running for all are its own alone. */
function countingForRuns(installation: ClientConfig, merged: ClientConfig): ClientConfig {
  const { models, hooks, permissions, options } = merged;
  const { image_generation, text_to_speech, speech_to_text } = merged;
  const { limits, disabled_tools = [], disable_auto_summarize } = options ?? {};
  // Of two people's lists: what the operator has switched off for all, nobody switches on.
  const disabled = new Set([...(installation.options?.disabled_tools ?? []), ...disabled_tools]);
  return {
    ...installation,
    ...(models && { models }),
    ...(hooks && { hooks }),
    ...(permissions && { permissions }),
    ...(image_generation && { image_generation }),
    ...(text_to_speech && { text_to_speech }),
    ...(speech_to_text && { speech_to_text }),
    options: {
      ...installation.options,
      ...(limits && { limits }),
      ...(disabled.size > 0 && { disabled_tools: [...disabled] }),
      ...(disable_auto_summarize !== undefined && { disable_auto_summarize }),
    },
  };
}
