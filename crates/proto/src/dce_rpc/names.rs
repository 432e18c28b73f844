//! Names of well-known interfaces and of their operations.

use super::pdu::Uuid;

/// An interface.
struct Interface {
    /// Its identifier.
    uuid: u128,
    /// Its name. Where Zeek has a word for it, that.
    name: &'static str,
    /// The names of its operations in the order of their numbers, from 0; `-` is a number without a use, and `@N` continues with
    /// number N.
    operations: &'static str,
}

/// The last bytes of the identifiers of COM (MS-DCOM, 1.9).
const COM: u128 = 0xc000_0000_0000_0046;

/// The name of an interface, as Zeek writes it: `unknown-UUID` if it is not known.
pub(super) fn endpoint(uuid: Uuid) -> String {
    find(uuid).map_or_else(|| format!("unknown-{uuid}"), |interface| interface.name.to_owned())
}

/// The name of an operation of an interface, as Zeek writes it: `unknown-N` if it is not known.
pub(super) fn operation(uuid: Uuid, number: u16) -> String {
    let named = find(uuid).and_then(|interface| interface.operation(number));
    named.map_or_else(|| format!("unknown-{number}"), str::to_owned)
}

fn find(uuid: Uuid) -> Option<&'static Interface> {
    INTERFACES.iter().find(|interface| interface.uuid == uuid.0)
}

impl Interface {
    fn operation(&self, number: u16) -> Option<&'static str> {
        let mut next = 0;
        for word in self.operations.split_ascii_whitespace() {
            match word.strip_prefix('@') {
                Some(at) => next = at.parse().ok()?,
                None if next == number => return Some(word).filter(|word| *word != "-"),
                None => next += 1,
            }
        }
        None
    }
}

/// The interfaces. The comments name the specification of each.
static INTERFACES: &[Interface] = &[
    // C706, appendix O.
    Interface {
        uuid: 0xe1af8308_5d1f_11c9_91a4_08002b14a0fa,
        name: "epmapper",
        operations: "ept_insert ept_delete ept_lookup ept_map ept_lookup_handle_free ept_inq_object ept_mgmt_delete",
    },
    // C706, appendix Q.
    Interface {
        uuid: 0xafa8bd80_7d8a_11c9_bef4_08002b102989,
        name: "mgmt",
        operations: "inq_if_ids inq_stats is_server_listening stop_server_listening inq_princ_name",
    },
    // MS-DCOM.
    Interface {
        uuid: 0x99fcfec4_5260_101b_bbcb_00aa0021347a,
        name: "IObjectExporter",
        operations: "ResolveOxid SimplePing ComplexPing ServerAlive ResolveOxid2 ServerAlive2",
    },
    Interface {
        uuid: 0x4d9f4ab8_7d1c_11cf_861e_0020af6e7c57,
        name: "IActivation",
        operations: "RemoteActivation",
    },
    Interface {
        uuid: 0x000001a0_0000_0000_0000_000000000000 | COM,
        name: "IRemoteSCMActivator",
        operations: "QueryInterface AddRef Release RemoteGetClassObject RemoteCreateInstance",
    },
    Interface {
        uuid: 0x00000131_0000_0000_0000_000000000000 | COM,
        name: "IRemUnknown",
        operations: "QueryInterface AddRef Release RemQueryInterface RemAddRef RemRelease",
    },
    Interface {
        uuid: 0x00000143_0000_0000_0000_000000000000 | COM,
        name: "IRemUnknown2",
        operations: "QueryInterface AddRef Release RemQueryInterface RemAddRef RemRelease RemQueryInterface2",
    },
    // MS-OAUT.
    Interface {
        uuid: 0x00020400_0000_0000_0000_000000000000 | COM,
        name: "IDispatch",
        operations: "QueryInterface AddRef Release GetTypeInfoCount GetTypeInfo GetIDsOfNames Invoke",
    },
    // MS-WMI.
    Interface {
        uuid: 0xf309ad18_d86a_11d0_a075_00c04fb68820,
        name: "IWbemLevel1Login",
        operations: "QueryInterface AddRef Release EstablishPosition RequestChallenge WBEMLogin NTLMLogin",
    },
    Interface {
        uuid: 0xd4781cd6_e5d3_44df_ad94_930efe48a887,
        name: "IWbemLoginClientID",
        operations: "QueryInterface AddRef Release SetClientInfo",
    },
    Interface {
        uuid: 0x9556dc99_828c_11cf_a37e_00aa003240c7,
        name: "IWbemServices",
        operations: "QueryInterface AddRef Release OpenNamespace CancelAsyncCall QueryObjectSink GetObject GetObjectAsync \
            PutClass PutClassAsync DeleteClass DeleteClassAsync CreateClassEnum CreateClassEnumAsync PutInstance \
            PutInstanceAsync DeleteInstance DeleteInstanceAsync CreateInstanceEnum CreateInstanceEnumAsync ExecQuery \
            ExecQueryAsync ExecNotificationQuery ExecNotificationQueryAsync ExecMethod ExecMethodAsync",
    },
    Interface {
        uuid: 0x027947e1_d731_11ce_a357_000000000001,
        name: "IEnumWbemClassObject",
        operations: "QueryInterface AddRef Release Reset Next NextAsync Clone Skip",
    },
    // MS-SAMR. Numbers that it reserves have the names of the functions on the host.
    Interface {
        uuid: 0x12345778_1234_abcd_ef00_0123456789ac,
        name: "samr",
        operations: "SamrConnect SamrCloseHandle SamrSetSecurityObject SamrQuerySecurityObject SamrShutdownSamServer \
            SamrLookupDomainInSamServer SamrEnumerateDomainsInSamServer SamrOpenDomain SamrQueryInformationDomain \
            SamrSetInformationDomain SamrCreateGroupInDomain SamrEnumerateGroupsInDomain SamrCreateUserInDomain \
            SamrEnumerateUsersInDomain SamrCreateAliasInDomain SamrEnumerateAliasesInDomain SamrGetAliasMembership \
            SamrLookupNamesInDomain SamrLookupIdsInDomain SamrOpenGroup SamrQueryInformationGroup \
            SamrSetInformationGroup SamrAddMemberToGroup SamrDeleteGroup SamrRemoveMemberFromGroup \
            SamrGetMembersInGroup SamrSetMemberAttributesOfGroup SamrOpenAlias SamrQueryInformationAlias \
            SamrSetInformationAlias SamrDeleteAlias SamrAddMemberToAlias SamrRemoveMemberFromAlias \
            SamrGetMembersInAlias SamrOpenUser SamrDeleteUser SamrQueryInformationUser SamrSetInformationUser \
            SamrChangePasswordUser SamrGetGroupsForUser SamrQueryDisplayInformation SamrGetDisplayEnumerationIndex \
            SamrTestPrivateFunctionsDomain SamrTestPrivateFunctionsUser SamrGetUserDomainPasswordInformation \
            SamrRemoveMemberFromForeignDomain SamrQueryInformationDomain2 SamrQueryInformationUser2 \
            SamrQueryDisplayInformation2 SamrGetDisplayEnumerationIndex2 SamrCreateUser2InDomain \
            SamrQueryDisplayInformation3 SamrAddMultipleMembersToAlias SamrRemoveMultipleMembersFromAlias \
            SamrOemChangePasswordUser2 SamrUnicodeChangePasswordUser2 SamrGetDomainPasswordInformation SamrConnect2 \
            SamrSetInformationUser2 SamrSetBootKeyInformation SamrGetBootKeyInformation SamrConnect3 SamrConnect4 \
            SamrUnicodeChangePasswordUser3 SamrConnect5 SamrRidToSid SamrSetDSRMPassword SamrValidatePassword \
            @73 SamrUnicodeChangePasswordUser4 SamrValidateComputerAccountReuseAttempt @77 SamrAccountIsDelegatedManagedServiceAccount",
    },
    // MS-LSAD and MS-LSAT.
    Interface {
        uuid: 0x12345778_1234_abcd_ef00_0123456789ab,
        name: "lsarpc",
        operations: "LsarClose LsarDelete LsarEnumeratePrivileges LsarQuerySecurityObject LsarSetSecurityObject \
            LsarChangePassword LsarOpenPolicy LsarQueryInformationPolicy LsarSetInformationPolicy LsarClearAuditLog \
            LsarCreateAccount LsarEnumerateAccounts LsarCreateTrustedDomain LsarEnumerateTrustedDomains \
            LsarLookupNames LsarLookupSids LsarCreateSecret LsarOpenAccount LsarEnumeratePrivilegesAccount \
            LsarAddPrivilegesToAccount LsarRemovePrivilegesFromAccount LsarGetQuotasForAccount \
            LsarSetQuotasForAccount LsarGetSystemAccessAccount LsarSetSystemAccessAccount LsarOpenTrustedDomain \
            LsarQueryInfoTrustedDomain LsarSetInformationTrustedDomain LsarOpenSecret LsarSetSecret LsarQuerySecret \
            LsarLookupPrivilegeValue LsarLookupPrivilegeName LsarLookupPrivilegeDisplayName LsarDeleteObject \
            LsarEnumerateAccountsWithUserRight LsarEnumerateAccountRights LsarAddAccountRights \
            LsarRemoveAccountRights LsarQueryTrustedDomainInfo LsarSetTrustedDomainInfo LsarDeleteTrustedDomain \
            LsarStorePrivateData LsarRetrievePrivateData LsarOpenPolicy2 LsarGetUserName \
            LsarQueryInformationPolicy2 LsarSetInformationPolicy2 LsarQueryTrustedDomainInfoByName \
            LsarSetTrustedDomainInfoByName LsarEnumerateTrustedDomainsEx LsarCreateTrustedDomainEx \
            LsarCloseTrustedDomainEx LsarQueryDomainInformationPolicy LsarSetDomainInformationPolicy \
            LsarOpenTrustedDomainByName LsarTestCall LsarLookupSids2 LsarLookupNames2 LsarCreateTrustedDomainEx2 \
            CredrWrite CredrRead CredrEnumerate CredrWriteDomainCredentials CredrReadDomainCredentials CredrDelete \
            CredrGetTargetInfo CredrProfileLoaded LsarLookupNames3 CredrGetSessionTypes LsarRegisterAuditEvent \
            LsarGenAuditEvent LsarUnregisterAuditEvent LsarQueryForestTrustInformation \
            LsarSetForestTrustInformation CredrRename LsarLookupSids3 LsarLookupNames4 LsarOpenPolicySce \
            LsarAdtRegisterSecurityEventSource LsarAdtUnregisterSecurityEventSource LsarAdtReportSecurityEvent \
            @129 LsarCreateTrustedDomainEx3 LsarOpenPolicy3 LsarQueryForestTrustInformation2 \
            LsarSetForestTrustInformation2",
    },
    // MS-NRPC.
    Interface {
        uuid: 0x12345678_1234_abcd_ef00_01234567cffb,
        name: "netlogon",
        operations: "NetrLogonUasLogon NetrLogonUasLogoff NetrLogonSamLogon NetrLogonSamLogoff NetrServerReqChallenge \
            NetrServerAuthenticate NetrServerPasswordSet NetrDatabaseDeltas NetrDatabaseSync NetrAccountDeltas \
            NetrAccountSync NetrGetDCName NetrLogonControl NetrGetAnyDCName NetrLogonControl2 \
            NetrServerAuthenticate2 NetrDatabaseSync2 NetrDatabaseRedo NetrLogonControl2Ex \
            NetrEnumerateTrustedDomains DsrGetDcName NetrLogonGetCapabilities NetrLogonSetServiceBits \
            NetrLogonGetTrustRid NetrLogonComputeServerDigest NetrLogonComputeClientDigest NetrServerAuthenticate3 \
            DsrGetDcNameEx DsrGetSiteName NetrLogonGetDomainInfo NetrServerPasswordSet2 NetrServerPasswordGet \
            NetrLogonSendToSam DsrAddressToSiteNamesW DsrGetDcNameEx2 NetrLogonGetTimeServiceParentDomain \
            NetrEnumerateTrustedDomainsEx DsrAddressToSiteNamesExW DsrGetDcSiteCoverageW NetrLogonSamLogonEx \
            DsrEnumerateDomainTrusts DsrDeregisterDnsHostRecords NetrServerTrustPasswordsGet \
            DsrGetForestTrustInformation NetrGetForestTrustInformation NetrLogonSamLogonWithFlags \
            NetrServerGetTrustInfo - DsrUpdateReadOnlyServerDnsRecords NetrChainSetClientAttributes \
            @59 NetrServerAuthenticateKerberos",
    },
    // MS-SRVS.
    Interface {
        uuid: 0x4b324fc8_1670_01d3_1278_5a47bf6ee188,
        name: "srvsvc",
        operations: "NetrCharDevEnum NetrCharDevGetInfo NetrCharDevControl NetrCharDevQEnum NetrCharDevQGetInfo \
            NetrCharDevQSetInfo NetrCharDevQPurge NetrCharDevQPurgeSelf NetrConnectionEnum NetrFileEnum \
            NetrFileGetInfo NetrFileClose NetrSessionEnum NetrSessionDel NetrShareAdd NetrShareEnum \
            NetrShareGetInfo NetrShareSetInfo NetrShareDel NetrShareDelSticky NetrShareCheck NetrServerGetInfo \
            NetrServerSetInfo NetrServerDiskEnum NetrServerStatisticsGet NetrServerTransportAdd \
            NetrServerTransportEnum NetrServerTransportDel NetrRemoteTOD NetrServerSetServiceBits NetprPathType \
            NetprPathCanonicalize NetprPathCompare NetprNameValidate NetprNameCanonicalize NetprNameCompare \
            NetrShareEnumSticky NetrShareDelStart NetrShareDelCommit NetrpGetFileSecurity NetrpSetFileSecurity \
            NetrServerTransportAddEx NetrServerSetServiceBitsEx NetrDfsGetVersion NetrDfsCreateLocalPartition \
            NetrDfsDeleteLocalPartition NetrDfsSetLocalVolumeState NetrDfsSetServerInfo NetrDfsCreateExitPoint \
            NetrDfsDeleteExitPoint NetrDfsModifyPrefix NetrDfsFixLocalVolume NetrDfsManagerReportSiteInfo \
            NetrServerTransportDelEx NetrServerAliasAdd NetrServerAliasEnum NetrServerAliasDel NetrShareDelEx",
    },
    // MS-WKST.
    Interface {
        uuid: 0x6bffd098_a112_3610_9833_46c3f87e345a,
        name: "wkssvc",
        operations: "NetrWkstaGetInfo NetrWkstaSetInfo NetrWkstaUserEnum NetrWkstaUserGetInfo NetrWkstaUserSetInfo \
            NetrWkstaTransportEnum NetrWkstaTransportAdd NetrWkstaTransportDel NetrUseAdd NetrUseGetInfo NetrUseDel \
            NetrUseEnum NetrMessageBufferSend NetrWorkstationStatisticsGet NetrLogonDomainNameAdd \
            NetrLogonDomainNameDel NetrJoinDomain NetrUnjoinDomain NetrRenameMachineInDomain NetrValidateName \
            NetrGetJoinInformation NetrGetJoinableOUs NetrJoinDomain2 NetrUnjoinDomain2 NetrRenameMachineInDomain2 \
            NetrValidateName2 NetrGetJoinableOUs2 NetrAddAlternateComputerName NetrRemoveAlternateComputerName \
            NetrSetPrimaryComputerName NetrEnumerateComputerNames",
    },
    // MS-SCMR, without the R (remote) with which its names begin.
    Interface {
        uuid: 0x367abb81_9844_35f1_ad32_98f038001003,
        name: "svcctl",
        operations: "CloseServiceHandle ControlService DeleteService LockServiceDatabase QueryServiceObjectSecurity \
            SetServiceObjectSecurity QueryServiceStatus SetServiceStatus UnlockServiceDatabase \
            NotifyBootConfigStatus ScSetServiceBitsW ChangeServiceConfigW CreateServiceW EnumDependentServicesW \
            EnumServicesStatusW OpenSCManagerW OpenServiceW QueryServiceConfigW QueryServiceLockStatusW \
            StartServiceW GetServiceDisplayNameW GetServiceKeyNameW ScSetServiceBitsA ChangeServiceConfigA \
            CreateServiceA EnumDependentServicesA EnumServicesStatusA OpenSCManagerA OpenServiceA \
            QueryServiceConfigA QueryServiceLockStatusA StartServiceA GetServiceDisplayNameA GetServiceKeyNameA \
            ScGetCurrentGroupStateW EnumServiceGroupW ChangeServiceConfig2A ChangeServiceConfig2W \
            QueryServiceConfig2A QueryServiceConfig2W QueryServiceStatusEx EnumServicesStatusExA \
            EnumServicesStatusExW ScSendTSMessage CreateServiceWOW64A CreateServiceWOW64W ScQueryServiceTagInfo \
            NotifyServiceStatusChange GetNotifyResults CloseNotifyHandle ControlServiceExA ControlServiceExW - - - - \
            QueryServiceConfigEx @60 CreateWowService @64 OpenSCManager2",
    },
    // MS-RRP.
    Interface {
        uuid: 0x338cd001_2244_31f1_aaaa_900038001003,
        name: "winreg",
        operations: "OpenClassesRoot OpenCurrentUser OpenLocalMachine OpenPerformanceData OpenUsers BaseRegCloseKey \
            BaseRegCreateKey BaseRegDeleteKey BaseRegDeleteValue BaseRegEnumKey BaseRegEnumValue BaseRegFlushKey \
            BaseRegGetKeySecurity BaseRegLoadKey BaseRegNotifyChangeKeyValue BaseRegOpenKey BaseRegQueryInfoKey \
            BaseRegQueryValue BaseRegReplaceKey BaseRegRestoreKey BaseRegSaveKey BaseRegSetKeySecurity \
            BaseRegSetValue BaseRegUnLoadKey BaseInitiateSystemShutdown BaseAbortSystemShutdown BaseRegGetVersion \
            OpenCurrentConfig OpenDynData BaseRegQueryMultipleValues BaseInitiateSystemShutdownEx BaseRegSaveKeyEx \
            OpenPerformanceText OpenPerformanceNlsText BaseRegQueryMultipleValues2 BaseRegDeleteKeyEx",
    },
    // MS-TSCH.
    Interface {
        uuid: 0x1ff70682_0a51_30e8_076d_740be8cee98b,
        name: "atsvc",
        operations: "NetrJobAdd NetrJobDel NetrJobEnum NetrJobGetInfo",
    },
    Interface {
        uuid: 0x378e52b0_c0a9_11cf_822d_00aa0051e40f,
        name: "sasec",
        operations: "SASetAccountInformation SASetNSAccountInformation SAGetNSAccountInformation SAGetAccountInformation",
    },
    Interface {
        uuid: 0x86d35949_83c9_4044_b424_db363231fd0c,
        name: "ITaskSchedulerService",
        operations: "SchRpcHighestVersion SchRpcRegisterTask SchRpcRetrieveTask SchRpcCreateFolder SchRpcSetSecurity \
            SchRpcGetSecurity SchRpcEnumFolders SchRpcEnumTasks SchRpcEnumInstances SchRpcGetInstanceInfo \
            SchRpcStopInstance SchRpcStop SchRpcRun SchRpcDelete SchRpcRename SchRpcScheduledRuntimes \
            SchRpcGetLastRunInfo SchRpcGetTaskInfo SchRpcGetNumberOfMissedRuns SchRpcEnableTask",
    },
    // MS-DRSR, without the IDL_ with which its names begin.
    Interface {
        uuid: 0xe3514235_4b06_11d1_ab04_00c04fc2dcd2,
        name: "drsuapi",
        operations: "DRSBind DRSUnbind DRSReplicaSync DRSGetNCChanges DRSUpdateRefs DRSReplicaAdd DRSReplicaDel \
            DRSReplicaModify DRSVerifyNames DRSGetMemberships DRSInterDomainMove DRSGetNT4ChangeLog DRSCrackNames \
            DRSWriteSPN DRSRemoveDsServer DRSRemoveDsDomain DRSDomainControllerInfo DRSAddEntry DRSExecuteKCC \
            DRSGetReplInfo DRSAddSidHistory DRSGetMemberships2 DRSReplicaVerifyObjects DRSGetObjectExistence \
            DRSQuerySitesByCost DRSInitDemotion DRSReplicaDemotion DRSFinishDemotion DRSAddCloneDC DRSWriteNgcKey \
            DRSReadNgcKey",
    },
    // MS-DSSP.
    Interface {
        uuid: 0x3919286a_b10c_11d0_9ba8_00c04fd92ef5,
        name: "dssetup",
        operations: "DsRolerGetPrimaryDomainInformation DsRolerDnsNameToFlatName DsRolerDcAsDc DsRolerDcAsReplica \
            DsRolerDemoteDc DsRolerGetDcOperationProgress DsRolerGetDcOperationResults DsRolerCancel \
            DsRolerServerSaveStateForUpgrade DsRolerUpgradeDownlevelServer DsRolerAbortDownlevelServerUpgrade",
    },
    // MS-RPRN.
    Interface {
        uuid: 0x12345678_1234_abcd_ef00_0123456789ab,
        name: "spoolss",
        operations: "RpcEnumPrinters RpcOpenPrinter RpcSetJob RpcGetJob RpcEnumJobs RpcAddPrinter RpcDeletePrinter \
            RpcSetPrinter RpcGetPrinter RpcAddPrinterDriver RpcEnumPrinterDrivers RpcGetPrinterDriver \
            RpcGetPrinterDriverDirectory RpcDeletePrinterDriver RpcAddPrintProcessor RpcEnumPrintProcessors \
            RpcGetPrintProcessorDirectory RpcStartDocPrinter RpcStartPagePrinter RpcWritePrinter \
            RpcEndPagePrinter RpcAbortPrinter RpcReadPrinter RpcEndDocPrinter RpcAddJob RpcScheduleJob \
            RpcGetPrinterData RpcSetPrinterData RpcWaitForPrinterChange RpcClosePrinter RpcAddForm RpcDeleteForm \
            RpcGetForm RpcSetForm RpcEnumForms RpcEnumPorts RpcEnumMonitors RpcAddPort RpcConfigurePort \
            RpcDeletePort RpcCreatePrinterIC RpcPlayGdiScriptOnPrinterIC RpcDeletePrinterIC \
            RpcAddPrinterConnection RpcDeletePrinterConnection RpcPrinterMessageBox RpcAddMonitor \
            RpcDeleteMonitor RpcDeletePrintProcessor RpcAddPrintProvidor RpcDeletePrintProvidor \
            RpcEnumPrintProcessorDatatypes RpcResetPrinter RpcGetPrinterDriver2 \
            RpcClientFindFirstPrinterChangeNotification RpcFindNextPrinterChangeNotification \
            RpcFindClosePrinterChangeNotification RpcRouterFindFirstPrinterChangeNotificationOld \
            RpcReplyOpenPrinter RpcRouterReplyPrinter RpcReplyClosePrinter RpcAddPortEx \
            RpcRemoteFindFirstPrinterChangeNotification RpcSpoolerInit RpcResetPrinterEx \
            RpcRemoteFindFirstPrinterChangeNotificationEx RpcRouterReplyPrinterEx \
            RpcRouterRefreshPrinterChangeNotification RpcSetAllocFailCount RpcOpenPrinterEx RpcAddPrinterEx \
            RpcSetPort RpcEnumPrinterData RpcDeletePrinterData RpcClusterSplOpen RpcClusterSplClose \
            RpcClusterSplIsAlive RpcSetPrinterDataEx RpcGetPrinterDataEx RpcEnumPrinterDataEx RpcEnumPrinterKey \
            RpcDeletePrinterDataEx RpcDeletePrinterKey RpcSeekPrinter RpcDeletePrinterDriverEx \
            RpcAddPerMachineConnection RpcDeletePerMachineConnection RpcEnumPerMachineConnections RpcXcvData \
            RpcAddPrinterDriverEx RpcSplOpenPrinter RpcGetSpoolFileInfo RpcCommitSpoolData \
            RpcGetSpoolFileInfo2 RpcCommitSpoolData2 RpcCloseSpoolFileHandle RpcFlushPrinter RpcSendRecvBidiData \
            RpcAddDriverCatalog RpcAddPrinterConnection2 RpcDeletePrinterConnection2 \
            RpcInstallPrinterDriverFromPackage RpcGetCorePrinterDrivers RpcCorePrinterDriverInstalled \
            RpcGetPrinterDriverPackagePath RpcDeletePrinterDriverPackage @116 RpcGetJobNamedPropertyValue \
            RpcSetJobNamedProperty RpcDeleteJobNamedProperty RpcEnumJobNamedProperties @123 \
            RpcLogJobInfoForBranchOffice RpcRegeneratePrintDeviceCapabilities",
    },
    // MS-PAR.
    Interface {
        uuid: 0x76f03f96_cdfd_44fc_a22c_64950a001209,
        name: "IRemoteWinspool",
        operations: "RpcAsyncOpenPrinter RpcAsyncAddPrinter RpcAsyncSetJob RpcAsyncGetJob RpcAsyncEnumJobs \
            RpcAsyncAddJob RpcAsyncScheduleJob RpcAsyncDeletePrinter RpcAsyncSetPrinter RpcAsyncGetPrinter \
            RpcAsyncStartDocPrinter RpcAsyncStartPagePrinter RpcAsyncWritePrinter RpcAsyncEndPagePrinter \
            RpcAsyncEndDocPrinter RpcAsyncAbortPrinter RpcAsyncGetPrinterData RpcAsyncGetPrinterDataEx \
            RpcAsyncSetPrinterData RpcAsyncSetPrinterDataEx RpcAsyncClosePrinter RpcAsyncAddForm \
            RpcAsyncDeleteForm RpcAsyncGetForm RpcAsyncSetForm RpcAsyncEnumForms RpcAsyncGetPrinterDriver \
            RpcAsyncEnumPrinterData RpcAsyncEnumPrinterDataEx RpcAsyncEnumPrinterKey RpcAsyncDeletePrinterData \
            RpcAsyncDeletePrinterDataEx RpcAsyncDeletePrinterKey RpcAsyncXcvData RpcAsyncSendRecvBidiData \
            RpcAsyncCreatePrinterIC RpcAsyncPlayGdiScriptOnPrinterIC RpcAsyncDeletePrinterIC \
            RpcAsyncEnumPrinters RpcAsyncAddPrinterDriver RpcAsyncEnumPrinterDrivers \
            RpcAsyncGetPrinterDriverDirectory RpcAsyncDeletePrinterDriver RpcAsyncDeletePrinterDriverEx \
            RpcAsyncAddPrintProcessor RpcAsyncEnumPrintProcessors RpcAsyncGetPrintProcessorDirectory \
            RpcAsyncEnumPorts RpcAsyncEnumMonitors RpcAsyncAddPort RpcAsyncSetPort RpcAsyncAddMonitor \
            RpcAsyncDeleteMonitor RpcAsyncDeletePrintProcessor RpcAsyncEnumPrintProcessorDatatypes \
            RpcAsyncAddPerMachineConnection RpcAsyncDeletePerMachineConnection \
            RpcAsyncEnumPerMachineConnections RpcSyncRegisterForRemoteNotifications \
            RpcSyncUnRegisterForRemoteNotifications RpcSyncRefreshRemoteNotifications \
            RpcAsyncGetRemoteNotifications RpcAsyncInstallPrinterDriverFromPackage \
            RpcAsyncUploadPrinterDriverPackage RpcAsyncGetCorePrinterDrivers RpcAsyncCorePrinterDriverInstalled \
            RpcAsyncGetPrinterDriverPackagePath RpcAsyncDeletePrinterDriverPackage RpcAsyncReadPrinter \
            RpcAsyncResetPrinter RpcAsyncGetJobNamedPropertyValue RpcAsyncSetJobNamedProperty \
            RpcAsyncDeleteJobNamedProperty RpcAsyncEnumJobNamedProperties RpcAsyncLogJobInfoForBranchOffice",
    },
    // MS-DFSNM.
    Interface {
        uuid: 0x4fc742e0_4a10_11cf_8273_00aa004ae673,
        name: "netdfs",
        operations: "NetrDfsManagerGetVersion NetrDfsAdd NetrDfsRemove NetrDfsSetInfo NetrDfsGetInfo NetrDfsEnum \
            NetrDfsMove NetrDfsRename NetrDfsManagerGetConfigInfo NetrDfsManagerSendSiteInfo NetrDfsAddFtRoot \
            NetrDfsRemoveFtRoot NetrDfsAddStdRoot NetrDfsRemoveStdRoot NetrDfsManagerInitialize \
            NetrDfsAddStdRootForced NetrDfsGetDcAddress NetrDfsSetDcAddress NetrDfsFlushFtTable NetrDfsAdd2 \
            NetrDfsRemove2 NetrDfsEnumEx NetrDfsSetInfo2 NetrDfsAddRootTarget NetrDfsRemoveRootTarget \
            NetrDfsGetSupportedNamespaceVersion",
    },
    // MS-EFSR, over both of its pipes.
    Interface { uuid: 0xc681d488_d850_11d0_8c52_00c04fd90f7e, name: "efsrpc", operations: EFS },
    Interface { uuid: 0xdf1941c5_fe89_4e79_bf10_463657acf44d, name: "efsrpc", operations: EFS },
    // MS-EVEN.
    Interface {
        uuid: 0x82273fdc_e32a_18c3_3f78_827929dc23ea,
        name: "eventlog",
        operations: "ElfrClearELFW ElfrBackupELFW ElfrCloseEL ElfrDeregisterEventSource ElfrNumberOfRecords \
            ElfrOldestRecord ElfrChangeNotify ElfrOpenELW ElfrRegisterEventSourceW ElfrOpenBELW ElfrReadELW \
            ElfrReportEventW ElfrClearELFA ElfrBackupELFA ElfrOpenELA ElfrRegisterEventSourceA ElfrOpenBELA \
            ElfrReadELA ElfrReportEventA ElfrRegisterClusterSvc ElfrDeregisterClusterSvc ElfrWriteClusterEvents \
            ElfrGetLogInformation ElfrFlushEL ElfrReportEventAndSourceW",
    },
    // MS-EVEN6.
    Interface {
        uuid: 0xf6beaff7_1e19_4fbb_9f8f_b89e2018337c,
        name: "IEventService",
        operations: "EvtRpcRegisterRemoteSubscription EvtRpcRemoteSubscriptionNextAsync EvtRpcRemoteSubscriptionNext \
            EvtRpcRemoteSubscriptionWaitAsync EvtRpcRegisterControllableOperation EvtRpcRegisterLogQuery \
            EvtRpcClearLog EvtRpcExportLog EvtRpcLocalizeExportLog EvtRpcMessageRender EvtRpcMessageRenderDefault \
            EvtRpcQueryNext EvtRpcQuerySeek EvtRpcClose EvtRpcCancel EvtRpcAssertConfig EvtRpcRetractConfig \
            EvtRpcOpenLogHandle EvtRpcGetLogFileInfo EvtRpcGetChannelList EvtRpcGetChannelConfig \
            EvtRpcPutChannelConfig EvtRpcGetPublisherList EvtRpcGetPublisherListForChannel \
            EvtRpcGetPublisherMetadata EvtRpcGetPublisherResourceMetadata EvtRpcGetEventMetadataEnum \
            EvtRpcGetNextEventMetadata EvtRpcGetClassicLogDisplayName",
    },
    // MS-RSP.
    Interface {
        uuid: 0x894de0c0_0d55_11d3_a322_00c04fa321a1,
        name: "InitShutdown",
        operations: "BaseInitiateShutdown BaseAbortShutdown BaseInitiateShutdownEx",
    },
    Interface {
        uuid: 0xd95afe70_a6d5_4259_822e_2c84da1ddb0d,
        name: "WindowsShutdown",
        operations: "WsdrInitiateShutdown WsdrAbortShutdown",
    },
    // MS-DNSP, without the R_ with which its names begin.
    Interface {
        uuid: 0x50abc2a4_574d_40b3_9d66_ee4fd5fba076,
        name: "dnsserver",
        operations: "DnssrvOperation DnssrvQuery DnssrvComplexOperation DnssrvEnumRecords DnssrvUpdateRecord \
            DnssrvOperation2 DnssrvQuery2 DnssrvComplexOperation2 DnssrvEnumRecords2 DnssrvUpdateRecord2",
    },
    // MS-BRWSA.
    Interface {
        uuid: 0x6bffd098_a112_3610_9833_012892020162,
        name: "browser",
        operations: "I_BrowserrServerEnum I_BrowserrDebugCall I_BrowserrQueryOtherDomains \
            I_BrowserrResetNetlogonState I_BrowserrDebugTrace I_BrowserrQueryStatistics \
            I_BrowserrResetStatistics NetrBrowserStatisticsClear NetrBrowserStatisticsGet \
            I_BrowserrSetNetlogonState I_BrowserrQueryEmulatedDomains I_BrowserrServerEnumEx",
    },
    // MS-MSRP.
    Interface {
        uuid: 0x17fdd703_1827_4e34_79d4_24a55c53bb37,
        name: "msgsvc",
        operations: "NetrMessageNameAdd NetrMessageNameEnum NetrMessageNameGetInfo NetrMessageNameDel",
    },
    Interface {
        uuid: 0x5a7b91f8_ff00_11d0_a9b2_00c04fb6e6fc,
        name: "msgsvcsend",
        operations: "NetrSendMessage",
    },
    // MS-DLTW and MS-DLTM.
    Interface {
        uuid: 0x300f3532_38cc_11d0_a3f0_0020af6b0add,
        name: "trkwks",
        operations: "@12 LnkSearchMachine",
    },
    Interface { uuid: 0x4da1c422_943d_11d1_acae_00c04fc2aa3f, name: "trksvr", operations: "LnkSvrMessage" },
    // MS-W32T.
    Interface {
        uuid: 0x8fb6d884_2388_11d0_8c35_00c04fda2795,
        name: "w32time",
        operations: "W32TimeSync W32TimeGetNetlogonServiceBits W32TimeQueryProviderStatus W32TimeQuerySource \
            W32TimeQueryProviderConfiguration W32TimeQueryConfiguration W32TimeQueryStatus W32TimeLog",
    },
    // MS-ICPR.
    Interface {
        uuid: 0x91ae6020_9e3c_11cf_8d7c_00aa00c091be,
        name: "ICertPassage",
        operations: "CertServerRequest",
    },
    // MS-BKRP.
    Interface { uuid: 0x3dde7c30_165d_11d1_ab8f_00805f14db40, name: "BackupKey", operations: "BackuprKey" },
    // MS-FSRVP.
    Interface {
        uuid: 0xa8e0653c_2744_4389_a61d_7373df8b2292,
        name: "FileServerVssAgent",
        operations: "GetSupportedVersion SetContext StartShadowCopySet AddToShadowCopySet CommitShadowCopySet \
            ExposeShadowCopySet RecoveryCompleteShadowCopySet AbortShadowCopySet IsPathSupported \
            IsPathShadowCopied GetShareMapping DeleteShareMapping PrepareShadowCopySet",
    },
    // MS-FRS1 and MS-FRS2.
    Interface {
        uuid: 0xf5cc59b4_4264_101a_8c59_08002b2f8426,
        name: "FrsRpc",
        operations: "FrsRpcSendCommPkt FrsRpcVerifyPromotionParent FrsRpcStartPromotionParent FrsNOP \
            @10 FrsRpcVerifyPromotionParentEx",
    },
    Interface {
        uuid: 0x897e2e5f_93f3_4376_9c9c_fd2277495c27,
        name: "frstransport",
        operations: "CheckConnectivity EstablishConnection EstablishSession RequestUpdates RequestVersionVector \
            AsyncPoll RequestRecords UpdateCancel RawGetFileData RdcGetSignatures RdcPushSourceNeeds \
            RdcGetFileData RdcClose InitializeFileTransferAsync - RawGetFileDataAsync RdcGetFileDataAsync \
            RdcFileDataTransferKeepAlive",
    },
    // MS-NSPI (MS-OXNSPI), MS-OXABREF and MS-OXCRPC.
    Interface {
        uuid: 0xf5cc5a18_4264_101a_8c59_08002b2f8426,
        name: "nspi",
        operations: "NspiBind NspiUnbind NspiUpdateStat NspiQueryRows NspiSeekEntries NspiGetMatches \
            NspiResortRestriction NspiDNToMId NspiGetPropList NspiGetProps NspiCompareMIds NspiModProps \
            NspiGetSpecialTable NspiGetTemplateInfo NspiModLinkAtt NspiDeleteEntries NspiQueryColumns \
            NspiGetNamesFromIDs NspiGetIDsFromNames NspiResolveNames NspiResolveNamesW",
    },
    Interface {
        uuid: 0x1544f5e0_613c_11d1_93df_00c04fd7bd09,
        name: "exchange_rfr",
        operations: "RfrGetNewDSA RfrGetFQDNFromServerDN",
    },
    Interface {
        uuid: 0xa4f1db00_ca47_1067_b31f_00dd010662da,
        name: "exchange_mapi",
        operations: "@1 EcDoDisconnect @4 EcRRegisterPushNotification @6 EcDummyRpc @10 EcDoConnectEx EcDoRpcExt2 \
            @14 EcDoAsyncConnectEx",
    },
    Interface {
        uuid: 0x5261574a_4572_206e_b268_6b199213b4e4,
        name: "AsyncEMSMDB",
        operations: "EcDoAsyncWaitEx",
    },
];

const EFS: &str = "EfsRpcOpenFileRaw EfsRpcReadFileRaw EfsRpcWriteFileRaw EfsRpcCloseRaw EfsRpcEncryptFileSrv \
    EfsRpcDecryptFileSrv EfsRpcQueryUsersOnFile EfsRpcQueryRecoveryAgents EfsRpcRemoveUsersFromFile \
    EfsRpcAddUsersToFile - EfsRpcNotSupported EfsRpcFileKeyInfo EfsRpcDuplicateEncryptionInfoFile - \
    EfsRpcAddUsersToFileEx EfsRpcFileKeyInfoEx - EfsRpcGetEncryptedFileMetadata EfsRpcSetEncryptedFileMetadata \
    EfsRpcFlushEfsCache EfsRpcEncryptFileExSrv EfsRpcQueryProtectors";

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn interfaces_and_operations_occur_once() {
        let mut uuids = BTreeSet::new();
        for interface in INTERFACES {
            assert!(uuids.insert(interface.uuid), "{}", interface.name);
            let words = interface.operations.split_ascii_whitespace().filter(|word| *word != "-");
            let words: Vec<_> = words.collect();
            assert_eq!(words.iter().collect::<BTreeSet<_>>().len(), words.len(), "{}", interface.name);
            let numbers: Vec<u16> =
                words.iter().filter_map(|word| word.strip_prefix('@')?.parse().ok()).collect();
            assert!(numbers.is_sorted(), "{}", interface.name);
        }
    }

    /// One of each list, near its end: a name that is missing before it would move it.
    #[test]
    fn operations_have_the_numbers_of_the_specifications() {
        let name = |uuid, number| operation(Uuid(uuid), number);
        for (uuid, number, expected) in [
            (0xe1af8308_5d1f_11c9_91a4_08002b14a0fa, 3, "ept_map"),
            (0x12345778_1234_abcd_ef00_0123456789ac, 67, "SamrValidatePassword"),
            (0x12345778_1234_abcd_ef00_0123456789ac, 68, "unknown-68"),
            (0x12345778_1234_abcd_ef00_0123456789ab, 77, "LsarLookupNames4"),
            (0x12345678_1234_abcd_ef00_01234567cffb, 45, "NetrLogonSamLogonWithFlags"),
            (0x12345678_1234_abcd_ef00_01234567cffb, 47, "unknown-47"),
            (0x4b324fc8_1670_01d3_1278_5a47bf6ee188, 57, "NetrShareDelEx"),
            (0x6bffd098_a112_3610_9833_46c3f87e345a, 30, "NetrEnumerateComputerNames"),
            (0x367abb81_9844_35f1_ad32_98f038001003, 45, "CreateServiceWOW64W"),
            (0x338cd001_2244_31f1_aaaa_900038001003, 35, "BaseRegDeleteKeyEx"),
            (0x86d35949_83c9_4044_b424_db363231fd0c, 19, "SchRpcEnableTask"),
            (0xe3514235_4b06_11d1_ab04_00c04fc2dcd2, 28, "DRSAddCloneDC"),
            (0x12345678_1234_abcd_ef00_0123456789ab, 89, "RpcAddPrinterDriverEx"),
            (0x76f03f96_cdfd_44fc_a22c_64950a001209, 61, "RpcAsyncGetRemoteNotifications"),
            (0x4fc742e0_4a10_11cf_8273_00aa004ae673, 21, "NetrDfsEnumEx"),
            (0xc681d488_d850_11d0_8c52_00c04fd90f7e, 21, "EfsRpcEncryptFileExSrv"),
            (0x9556dc99_828c_11cf_a37e_00aa003240c7, 24, "ExecMethod"),
            (0x000001a0_0000_0000_c000_000000000046, 4, "RemoteCreateInstance"),
            (0x99fcfec4_5260_101b_bbcb_00aa0021347a, 5, "ServerAlive2"),
            (1, 7, "unknown-7"),
        ] {
            assert_eq!(name(uuid, number), expected);
        }
        assert_eq!(endpoint(Uuid(1)), "unknown-00000000-0000-0000-0000-000000000001");
    }
}
