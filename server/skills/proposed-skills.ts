/** What applying a commit of a repository of skills would change, skill by skill and file by file. */
import { createTwoFilesPatch, FILE_HEADERS_ONLY } from 'diff';
import type { ProposedSkill, ProposedSkillFile, SkillRepositoryProposal } from '../contract/api.ts';
import type { SkillFileContent, SkillProposal } from '../store/store.ts';
import { plain, shownFault } from './shown-fault.ts';

const mostFileBytes = 64 * 1024;
const mostCharacters = 1024 * 1024;
/** Texts that have nothing in common take long to compare. */
const fileMs = 500;
const allMs = 5000;

/** What is left for diffs. */
interface Budget {
  characters: number;
  ms: number;
}

export function shownProposal(repositoryId: string, proposal: SkillProposal): SkillRepositoryProposal {
  const left: Budget = { characters: mostCharacters, ms: allMs };
  const named = new Set(proposal.skills.map(({ name }) => name));
  const removed = proposal.applied.filter(({ name }) => !named.has(name));
  const skills = [
    ...proposal.skills.map((skill) => foundSkill(proposal, skill, left)),
    ...removed.map((skill) => removedSkill(proposal, skill, left)),
  ];
  return {
    repository_id: repositoryId,
    commit: proposal.commit,
    applied_commit: proposal.appliedCommit,
    synced_at: proposal.syncedAt,
    skills: skills.sort((a, b) => (a.path < b.path ? -1 : 1)),
    skipped: proposal.skipped.map(shownFault),
  };
}

type Found = SkillProposal['skills'][number];
type Used = SkillProposal['applied'][number];

function foundSkill({ applied, files }: SkillProposal, skill: Found, left: Budget): ProposedSkill {
  const { name, path, description, digest, faults } = skill;
  const used = applied.find((one) => one.name === name);
  const common = { name: plain(name), path: plain(path), description, skill_id: used?.id ?? null, digest };
  if (digest === null) return { ...common, change: 'invalid', errors: faults.map(shownFault), files: [] };
  const [before, after] = [files.get(used?.digest ?? '') ?? [], files.get(digest) ?? []];
  const change = used === undefined ? 'added' : used.digest === digest ? 'unchanged' : 'changed';
  return { ...common, change, errors: [], files: changedFiles(before, after, left) };
}

function removedSkill({ files }: SkillProposal, used: Used, left: Budget): ProposedSkill {
  const { id, name, path, description, digest } = used;
  return {
    ...{ name, path, description, skill_id: id, digest: null, change: 'removed', errors: [] },
    files: changedFiles(files.get(digest) ?? [], [], left),
  };
}

function changedFiles(
  before: readonly SkillFileContent[],
  after: readonly SkillFileContent[],
  left: Budget,
): ProposedSkillFile[] {
  const [from, to] = [before, after].map((files) => new Map(files.map((file) => [file.path, file])));
  const paths = [...new Set([...before, ...after].map(({ path }) => path))].sort();
  return paths.flatMap((path) => {
    const [old, now] = [from?.get(path), to?.get(path)];
    if (old && now && old.sha256 === now.sha256 && old.executable === now.executable) return [];
    return [
      {
        path,
        change: old === undefined ? 'added' : now === undefined ? 'removed' : 'changed',
        size: now?.content.length ?? null,
        executable: (now ?? old)?.executable ?? false,
        diff: diffOf(path, old, now, left),
      },
    ];
  });
}

function diffOf(
  path: string,
  old: SkillFileContent | undefined,
  now: SkillFileContent | undefined,
  left: Budget,
): string | null {
  if (left.characters <= 0 || left.ms <= 0 || old?.sha256 === now?.sha256) return null;
  const [from, to] = [textOf(old), textOf(now)];
  if (from === null || to === null) return null;
  const begun = performance.now();
  const timeout = Math.min(fileMs, left.ms);
  const options = { context: 3, timeout, headerOptions: FILE_HEADERS_ONLY };
  const patch = createTwoFilesPatch(path, path, from, to, undefined, undefined, options);
  left.ms -= performance.now() - begun;
  if (patch === undefined || patch.length > left.characters) return null;
  left.characters -= patch.length;
  return patch;
}

/** Null of what cannot be shown as text. */
function textOf(file: SkillFileContent | undefined): string | null {
  if (!file) return '';
  if (file.content.length > mostFileBytes || file.content.includes(0)) return null;
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(file.content);
  } catch {
    // What is not UTF-8 is shown as little as any other bytes.
    return null;
  }
}
