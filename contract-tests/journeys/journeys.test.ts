/** One suite of journeys through the client, made against the mock of the contract and against the live server. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { operations } from '../contract.ts';
import { accountJourneys } from './accounts.ts';
import { agentJourneys } from './agents.ts';
import { auditJourneys } from './audit.ts';
import { catalogJourneys } from './catalogs.ts';
import { corpusJourneys } from './corpora.ts';
import { embedderJourneys } from './embedder.ts';
import { fileJourneys } from './files.ts';
import { historyJourneys } from './history.ts';
import { liveJourneys } from './live.ts';
import { mcpServerJourneys } from './mcp-servers.ts';
import { memoryJourneys } from './memories.ts';
import { organizationJourneys } from './organizations.ts';
import { passwordJourneys } from './passwords.ts';
import { peopleJourneys } from './people.ts';
import { providerSettingJourneys } from './provider-settings.ts';
import { quotaJourneys } from './quotas.ts';
import { runJourneys } from './runs.ts';
import { schedulerJourneys } from './scheduler.ts';
import { sessionJourneys } from './sessions.ts';
import { signInJourneys } from './sign-in.ts';
import { skillRepositoryJourneys } from './skill-repositories.ts';
import { skillJourneys } from './skills.ts';
import { storageJourneys } from './storage.ts';
import { systemJourneys } from './system.ts';
import { openTarget, type Target } from './target.ts';
import { webSearchJourneys } from './web-search.ts';
import { workspaceJourneys } from './workspaces.ts';

/** Operations that the journeys see refused alone, and why; contract-tests/access sees each of them succeed. */
const onlyRefused: Readonly<Record<string, string>> = {
  trustWorkspace: 'The operator alone may, and the journey shows that the owner may not.',
  getSkillRepositoryProposal: 'No repository of the journeys can be fetched.',
  applySkillRepository: 'No repository of the journeys can be fetched.',
  cancelJobRun: 'The run of the journey has ended.',
  testProviderSetting: 'The vendor of the setting cannot be reached.',
  completeProviderOauth: 'Nobody has agreed at a provider.',
};

describe.each(['mock', 'live'] as const)('against the %s server', (kind) => {
  let opened: Target;
  const target = () => opened;

  beforeAll(async () => {
    opened = await openTarget(kind);
  });
  afterAll(async () => {
    console.log(
      `${opened.liveOnlyCount()} groups of assertions on state are made against the live server only`,
    );
    await opened.stop();
  });

  accountJourneys(target);
  passwordJourneys(target);
  signInJourneys(target);
  sessionJourneys(target);
  historyJourneys(target);
  liveJourneys(target);
  peopleJourneys(target);
  runJourneys(target);
  agentJourneys(target);
  fileJourneys(target);
  corpusJourneys(target);
  memoryJourneys(target);
  mcpServerJourneys(target);
  schedulerJourneys(target);
  skillJourneys(target);
  skillRepositoryJourneys(target);
  providerSettingJourneys(target);
  auditJourneys(target);
  workspaceJourneys(target);
  organizationJourneys(target);
  systemJourneys(target);
  catalogJourneys(target);
  storageJourneys(target);
  webSearchJourneys(target);
  embedderJourneys(target);
  quotaJourneys(target);

  test('the journeys brought every operation of the contract to a success', () => {
    const missed = operations
      .map(({ operationId }) => operationId)
      .filter((id) => !opened.record.succeeded.has(id));
    expect(missed).toEqual(Object.keys(onlyRefused));
  });

  test('every answer was as the contract says', () => {
    expect(opened.record.faults).toEqual([]);
  });
});
