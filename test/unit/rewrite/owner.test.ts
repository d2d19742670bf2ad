import { describe, expect, test } from '@jest/globals';
import { defaultConfig } from '../../../src/config/load.js';
import type { Answer } from '../../../src/rewrite/decide.js';
import { decide, questionsOf } from '../../../src/rewrite/decide.js';
import { skipOwner } from '../../../src/rewrite/skip.js';
import { DIGEST, OTHER, makePod, makePolicy, makeRecord, makeSituation, mustView, variantOf } from './builders.js';

const SOURCE = 'r.example/app:v1';
const OWNERS = defaultConfig().rewrite.owners;
const owner = (apiVersion: string, kind: string, controller: unknown = true) => ({
  ownerReferences: [{ apiVersion, kind, name: 'o', uid: 'u', controller }],
});
const ARGO = { annotations: { 'argocd.argoproj.io/tracking-id': 'x' } };

describe('skipOwner', () => {
  test.each<[string, Record<string, unknown>, readonly string[], string | undefined]>([
    ['a Job', owner('batch/v1', 'Job'), OWNERS, undefined],
    ['a Job of Volcano', owner('batch.volcano.sh/v1alpha1', 'Job'), OWNERS, undefined],
    ['a ReplicationController, of the core group', owner('v1', 'ReplicationController'), OWNERS, undefined],
    ['an operator', owner('postgresql.cnpg.io/v1', 'Cluster'), OWNERS, 'skipped-owner'],
    ['a Job of a group that nobody named', owner('example.com/v1', 'Job'), OWNERS, 'skipped-owner'],
    ['a kind of the core group with a known name', owner('v1', 'Job'), OWNERS, 'skipped-owner'],
    ['an operator that was added', owner('x.io/v1', 'Thing'), ['Thing.x.io'], undefined],
    ['an operator where all are trusted', owner('x.io/v1', 'Thing'), ['*'], undefined],
    ['an owner that does not control it', owner('x.io/v1', 'Thing', false), OWNERS, undefined],
    ['an owner whose word is no boolean', owner('x.io/v1', 'Thing', 'true'), OWNERS, undefined],
    ['an owner without kind', { ownerReferences: [{ controller: true }] }, OWNERS, 'skipped-owner'],
    ['owners that are no list', { ownerReferences: 'x' }, OWNERS, undefined],
    ['nobody', {}, OWNERS, undefined],
    ['nobody, tracked by Argo CD', ARGO, OWNERS, 'skipped-gitops'],
    ['nobody, tracked by Flux', { labels: { 'kustomize.toolkit.fluxcd.io/name': 'x' } }, OWNERS, 'skipped-gitops'],
    ['nobody, of a Flux release', { labels: { 'helm.toolkit.fluxcd.io/name': 'x' } }, OWNERS, 'skipped-gitops'],
    ['nobody, tracked, where all owners are trusted', ARGO, ['*'], 'skipped-gitops'],
    ['a Job that Argo CD tracks', { ...ARGO, ...owner('batch/v1', 'Job') }, OWNERS, undefined],
  ])('a Pod of %s', (_, metadata, owners, want) => {
    expect(skipOwner(mustView(makePod({ app: SOURCE }, metadata)), owners)?.outcome).toBe(want);
  });

  test('says which owner, and where to name it', () => {
    const skip = skipOwner(mustView(makePod({ app: SOURCE }, owner('x.io/v1', 'Thing'))), []);
    expect(skip?.message).toMatch(/Thing\.x\.io.*rewrite\.owners/);
  });
});

describe('Pods of owners that are not known', () => {
  const pod = makePod({ app: SOURCE, gang: 'r.example/gang:v1' }, owner('x.io/v1', 'Thing'));
  const answers = new Map<string, Answer>([variantOf(SOURCE, `r.example/app@${OTHER}`)]);
  const records = [makeRecord('r.example/gang:v1', `r.example/gang@${DIGEST}`)];
  const rewrite = { owners: OWNERS, imageVolumes: false };

  test('are asked nothing about and left, but what was warmed for their gang is pinned', () => {
    const situation = makeSituation(pod, { policies: [makePolicy('p')], records, rewrite });
    expect(questionsOf(situation)).toEqual([]);
    expect(decide(situation, answers).map((v) => [v.decision.outcome, v.decision.image])).toEqual([
      ['skipped-owner', SOURCE],
      ['pinned', `r.example/gang@${DIGEST}`],
    ]);
  });

  test('are changed where their owner is named', () => {
    const situation = makeSituation(pod, {
      policies: [makePolicy('p')],
      records,
      rewrite: { ...rewrite, owners: ['Thing.x.io'] },
    });
    expect(decide(situation, answers)[0]?.decision.outcome).toBe('accelerated');
  });
});
