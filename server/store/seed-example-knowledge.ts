/** Seeds what is known: files, corpora, documents, memories, skills and their repositories. */
import { createHash } from 'node:crypto';
import type { Knex } from 'knex';
import type { Corpus, Document, IngestionJobWithItems, Memory, Skill } from '../contract/api.ts';
import type { Database } from './database.ts';
import { at, type ExampleSeed, type Place } from './example-seed.ts';
import { indexMemory } from './memory-index.ts';
import { hashOfContent } from './memory-rows.ts';
import { nameKey } from './user-row.ts';

/** With its document, the job that took that in, and the group to which it is granted. */
export async function seedCorpus(
  sql: Knex.Transaction,
  seed: ExampleSeed,
  organization_id: string,
): Promise<void> {
  const { corpus, document, ingestionJob, corpusAccess } = seed;
  const { embedder, stale: _stale, stats, chunking, created_by: user_id, ...known } = corpus;
  const times = { revision: 1, created_at: at, updated_at: at };
  await sql('corpora').insert({
    ...{ ...known, ...stats, ...times, organization_id, user_id },
    name_key: nameKey(corpus.name),
    chunking: JSON.stringify(chunking),
    embedder_identity: embedder,
    vector_set: 1,
    metadata: JSON.stringify(corpus.metadata),
    grants_revision: 1,
  });
  for (const { principal, role } of corpusAccess.grants)
    await sql('corpus_grants').insert({
      ...{ organization_id, corpus_id: corpus.id, principal_id: principal, group_id: principal, role },
      created_at: at,
    });
  await seedDocument(sql, document, corpus, organization_id);
  await seedIngestionJob(sql, { job: ingestionJob, corpus, organizationId: organization_id });
}

async function seedDocument(
  sql: Knex.Transaction,
  { error: _error, created_by: user_id, metadata, ...shown }: Document,
  { workspace_id }: Corpus,
  organization_id: string,
): Promise<void> {
  await sql('documents').insert({
    ...{ ...shown, organization_id, workspace_id, user_id, generation: 1, newest_generation: 1 },
    name_key: nameKey(shown.title),
    metadata: JSON.stringify(metadata),
    ...{ revision: 1, created_at: at, updated_at: at },
  });
}

interface SeededJob {
  readonly job: IngestionJobWithItems;
  readonly corpus: Corpus;
  readonly organizationId: string;
}

async function seedIngestionJob(
  sql: Knex.Transaction,
  { job, corpus, organizationId: organization_id }: SeededJob,
): Promise<void> {
  const { items, progress, created_by: user_id, ...known } = job;
  const milliseconds = (time: string | null) => time && Date.parse(time);
  await sql('ingestion_jobs').insert({
    ...{ ...known, ...progress, organization_id, user_id, workspace_id: corpus.workspace_id },
    ...{ served_at: at, told_at: at, revision: 1, created_at: at },
    started_at: milliseconds(job.started_at),
    ended_at: milliseconds(job.ended_at),
  });
  for (const [ordinal, { error: _error, ...item }] of items.entries())
    await sql('ingestion_items').insert({
      ...{ ...item, ordinal, organization_id, job_id: job.id, id: `${job.id}_${ordinal}` },
      // Nobody takes in what an example shows as waiting.
      not_before: Number.MAX_SAFE_INTEGER,
      started_at: milliseconds(item.started_at),
      ended_at: milliseconds(item.ended_at),
    });
}

/** For an example that shows what becomes of a job: it is as it was before, with a document of its own if named. */
export async function seedJobBefore(
  database: Database,
  job: SeededJob,
  document: Document | null,
): Promise<void> {
  await database.write('installation', async (sql) => {
    if (document) await seedDocument(sql, document, job.corpus, job.organizationId);
    await seedIngestionJob(sql, job);
  });
}

/** What is known of it: its bytes are nowhere. */
export async function seedStoredFile(sql: Knex.Transaction, { file, me }: ExampleSeed, place: Place) {
  const { created_by: _createdBy, created_at: _createdAt, updated_at: _updatedAt, ...known } = file;
  const bytes = { sha256: file.sha256, size: file.size };
  const key = 'obj_example';
  await sql('stored_objects').insert({
    ...place,
    ...bytes,
    key,
    user_id: me.id,
    backend: 'fs',
    state: 'kept',
  });
  await sql('files').insert({
    ...known,
    ...place,
    object_key: key,
    name_key: nameKey(file.filename),
    metadata: JSON.stringify(file.metadata),
    user_id: me.id,
    revision: 1,
    created_at: at,
    updated_at: at,
  });
}

export async function seedMemory(sql: Knex.Transaction, memory: Memory) {
  const { source, author, version, created_at: _createdAt, updated_at: _updatedAt, ...known } = memory;
  const row = {
    ...known,
    owner_key: memory.workspace_id ?? '',
    private_to: null,
    content_hash: hashOfContent(memory.content),
    tags: JSON.stringify(memory.tags),
    source_session_id: source?.session_id,
    source_message_id: source?.message_id,
    author_id: author.user_id,
    user_id: author.user_id,
    size: memory.content.length,
    revision: version,
    created_at: at,
    updated_at: at,
  };
  await sql('memories').insert({ ...row, expires_at: null });
  const { kind, content, tags, organization_id, author_id } = row;
  await sql('memory_versions').insert({
    ...{ memory_id: memory.id, version, kind, content, tags, organization_id, author_id, created_at: at },
  });
  await indexMemory(sql, row);
}

export async function seedSkill(sql: Knex.Transaction, skill: Skill) {
  const { id, scope, organization_id, workspace_id, name, description, digest, files, size } = skill;
  await sql('skills').insert({
    ...{ id, scope, organization_id, workspace_id, name, description, digest, files, size },
    owner_key: workspace_id,
    user_id: skill.created_by,
    ...{ revision: 1, created_at: at, updated_at: at },
  });
  const content = Buffer.from(
    `---\nname: ${name}\ndescription: ${description}\n---\nRead the commits first.\n`,
  );
  await sql('skill_files').insert({
    ...{ skill_id: id, organization_id, path: 'SKILL.md', size, executable: false, content },
    sha256: createHash('sha256').update(content).digest('hex'),
  });
}

/** As a sync would have found what it proposes. */
export async function seedSkillRepository(sql: Knex.Transaction, seed: ExampleSeed): Promise<void> {
  const { me, skillRepository, skillProposal } = seed;
  const { has_token: _token, skills: _skills, synced_at: _synced, ...columns } = skillRepository;
  const found = skillProposal.skills.map(({ name, path, description, digest, errors, files }) => {
    const size = files.reduce((sum, file) => sum + (file.size ?? 0), 0);
    return { name, path, description, digest, files: files.length, size, faults: errors };
  });
  await sql('skill_repositories').insert({
    ...columns,
    proposal: JSON.stringify({ skills: found, skipped: skillProposal.skipped }),
    ...{ asked_by: me.id, claims: 0, revision: 1, synced_at: at, created_at: at, updated_at: at },
  });
  for (const { digest, files } of skillProposal.skills)
    for (const { path, executable, diff } of files) {
      // All of it was added: what stands behind the plus signs is the file.
      const lines = (diff ?? '').split('\n').slice(3).filter(Boolean);
      const content = Buffer.from(lines.map((line) => `${line.slice(1)}\n`).join(''));
      const sha256 = createHash('sha256').update(content).digest('hex');
      const file = { path, sha256, executable, size: content.length, content };
      await sql('repository_skill_files').insert({ repository_id: skillRepository.id, digest, ...file });
    }
}
