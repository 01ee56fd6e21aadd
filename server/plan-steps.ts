/** The steps of a plan: what stands in the numbered list of its text, or in the one with boxes to tick. */
import type { PlanStep, PlanStepStatus } from './contract/api.ts';

const mostSteps = 100;
const longestText = 300;

const numbered = /^\d{1,3}[.)]\s+(?<text>\S.*)$/;
const boxed = /^[-*+] \[(?<tick>[ xX])\]\s+(?<text>\S.*)$/;
const fence = /^(```|~~~)/;

/** None where the text has no such list. What stands in a list below another, or in code, is no step of its own. */
export function stepsOf(content: string): PlanStep[] {
  const lines = outsideOfCode(content);
  const numberedSteps = lines.flatMap((line) => numbered.exec(line)?.groups?.text ?? []);
  if (numberedSteps.length > 0) return numberedSteps.slice(0, mostSteps).map((text, at) => step(text, at));
  const boxes = lines.flatMap((line) => {
    const { tick, text } = boxed.exec(line)?.groups ?? {};
    return text === undefined ? [] : [{ text, done: tick !== ' ' }];
  });
  return boxes
    .slice(0, mostSteps)
    .map(({ text, done }, at) => step(text, at, done ? 'completed' : 'pending'));
}

/** The steps with another state of one of them; null where none has this id. */
export function withStep(steps: readonly PlanStep[], id: string, status: PlanStepStatus): PlanStep[] | null {
  if (!steps.some((one) => one.id === id)) return null;
  return steps.map((one) => (one.id === id ? { ...one, status } : one));
}

function step(text: string, at: number, status: PlanStepStatus = 'pending'): PlanStep {
  const plain = text.trim();
  const short = plain.length <= longestText ? plain : `${plain.slice(0, longestText - 1).toWellFormed()}…`;
  return { id: String(at + 1), text: short, status };
}

function outsideOfCode(content: string): string[] {
  let inCode = false;
  return content.split(/\r?\n/).filter((line) => {
    if (!fence.test(line.trimStart())) return !inCode;
    inCode = !inCode;
    return false;
  });
}
